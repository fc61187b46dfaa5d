// SPDX-License-Identifier: Apache-2.0
#include "kernels/combine.hpp"

#include <string>

#include "kernels/families.hpp"
#include "kernels/targets.hpp"

namespace ccoll {

CombineFunction find_combine(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::uint8:
      return find_combine_uint8(op);
    case DataType::int32:
      return find_combine_int32(op);
    case DataType::int64:
      return find_combine_int64(op);
    case DataType::float16:
      return find_combine_float16(op);
    case DataType::bfloat16:
      return find_combine_bfloat16(op);
    case DataType::float32:
      return find_combine_float32(op);
    case DataType::float64:
      return find_combine_float64(op);
  }
  return nullptr;
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
