// SPDX-License-Identifier: Apache-2.0
#include "comm/call/reductions.hpp"

#include <string_view>

namespace ccoll {
namespace {

std::uint32_t hash_of(std::string_view name) {  // FNV-1a
  std::uint32_t hash = 2166136261;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619;
  return hash;
}

/// Whether it is the caller's own and does not commute.
bool is_ordered(const Reduction& reduction) {
  return reduction.custom() && !reduction.custom()->description.commutative;
}

/// Whether the same contributions give the same bits in whatever order they are combined.
bool is_associative(const Reduction& reduction, DataType type) {
  if (reduction.custom()) return false;
  return is_integer(type) || type == DataType::boolean || reduction.op() == ReduceOp::min ||
         reduction.op() == ReduceOp::max;
}

}  // namespace

CombineOrder order_of(const Reduction& reduction, DataType type, bool deterministic) {
  if (deterministic && !is_associative(reduction, type)) return CombineOrder::at_once;
  return is_ordered(reduction) ? CombineOrder::by_rank : CombineOrder::any;
}

std::optional<ReduceOp> kernel_op(const Reduction& reduction) {
  if (reduction.custom()) return std::nullopt;
  return reduction.op();
}

void sign(const Reduction& reduction, Signature& signature) {
  switch (reduction.form()) {
    case Reduction::Form::plain:
      signature.op = static_cast<std::uint8_t>(reduction.op());
      break;
    case Reduction::Form::premultiplied_sum:
      signature.op = kPremultipliedSum;
      break;
    case Reduction::Form::custom:
      signature.op = is_ordered(reduction) ? kOrderedCustom : kCustom;
      signature.root ^= hash_of(reduction.custom()->description.name);
      break;
  }
}

}  // namespace ccoll
