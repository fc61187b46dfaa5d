// SPDX-License-Identifier: Apache-2.0
#include "comm/reductions.hpp"

#include <new>

#include "comm/implementation.hpp"

namespace ccoll {
namespace {

std::uint32_t hash_of(std::string_view name) {  // FNV-1a
  std::uint32_t hash = 2166136261;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619;
  return hash;
}

}  // namespace

bool needs_rank_order(const Reduction& reduction) {
  return reduction.custom() && !reduction.custom()->description.commutative;
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
      signature.op = needs_rank_order(reduction) ? kOrderedCustom : kCustom;
      signature.root ^= hash_of(reduction.custom()->description.name);
      break;
  }
}

Result<Premultiplication> Premultiplication::make(const Call& call, std::uint32_t rank,
                                                  std::uint32_t size) {
  Premultiplication made;
  made.input_ = static_cast<const std::byte*>(call.input);
  made.elems_ = call.kind == Kind::reduce_scatter ? call.count * size : call.count;
  made.scale_ = find_scale(call.type);
  made.factor_ = {call.op.factor(), call.op.whole_factor()};
  if (call.kind == Kind::all_reduce || (call.kind == Kind::reduce && rank == call.root)) {
    made.products_ = static_cast<std::byte*>(call.output);
    return made;
  }
  const std::size_t bytes = made.elems_ * size_of(call.type);
  made.own_.reset(new (std::nothrow) std::byte[bytes]);
  if (!made.own_)
    return fail(ErrorKind::exhausted, "{}: no memory for {} bytes of multiplied input",
                to_string(call.kind), bytes);
  made.products_ = made.own_.get();
  return made;
}

const std::byte* Premultiplication::run() const {
  scale_(input_, products_, elems_, factor_);
  return products_;
}

}  // namespace ccoll
