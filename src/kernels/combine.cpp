// SPDX-License-Identifier: Apache-2.0
#include "kernels/combine.hpp"

#include <string>

#include "kernels/families.hpp"
#include "kernels/targets.hpp"

namespace ccoll {

namespace {

enum class Family : std::uint8_t { integer, half, float8, plain_float, boolean };

Family family_of(DataType type) {
  if (is_integer(type)) return Family::integer;
  if (type == DataType::boolean) return Family::boolean;
  if (type == DataType::float16 || type == DataType::bfloat16) return Family::half;
  if (size_of(type) == 1) return Family::float8;
  return Family::plain_float;
}

CombineFunction find_combine_of_integers(DataType type, ReduceOp op) {
  if (op >= ReduceOp::bit_and) return find_combine_bits(type, op);
  const bool orders = op == ReduceOp::min || op == ReduceOp::max;
  return orders ? find_combine_order(type, op) : find_combine_integer(type, op);
}

}  // namespace

CombineFunction find_combine(DataType type, ReduceOp op) {
  if (!is_defined(op, type)) return nullptr;
  switch (family_of(type)) {
    case Family::integer:
      return find_combine_of_integers(type, op);
    case Family::half:
      return find_combine_half(type, op);
    case Family::float8:
      return find_combine_float8(type, op);
    case Family::plain_float:
      return find_combine_float(type, op);
    case Family::boolean:
      return find_combine_bool(op);
  }
  return nullptr;
}

ScaleFunction find_scale(DataType type) {
  switch (family_of(type)) {
    case Family::integer:
      return find_scale_integer(type);
    case Family::half:
      return find_scale_half(type);
    case Family::float8:
      return find_scale_float8(type);
    case Family::plain_float:
      return find_scale_float(type);
    case Family::boolean:
      return nullptr;
  }
  return nullptr;
}

Conversion find_conversion(DataType type) {
  if (type == DataType::float16) return find_conversion_half();
  return family_of(type) == Family::float8 ? find_conversion_float8(type) : Conversion{};
}

const char* simd_target() {
  static const std::string names = [] {
    std::string joined;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (!joined.empty()) joined += ' ';
      joined += hwy::TargetName(target);
    }
    return joined;
  }();
  return names.c_str();
}

}  // namespace ccoll
