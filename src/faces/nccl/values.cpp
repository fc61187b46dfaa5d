// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/values.hpp"

#include <array>

#include "faces/nccl/results.hpp"

namespace ccoll::nccl {
namespace {

constexpr std::array<DataType, ncclNumTypes> kTypes = {
    DataType::int8,    DataType::uint8,    DataType::int32,       DataType::uint32,
    DataType::int64,   DataType::uint64,   DataType::float16,     DataType::float32,
    DataType::float64, DataType::bfloat16, DataType::float8_e4m3, DataType::float8_e5m2,
};

constexpr std::array<ReduceOp, ncclNumOps> kOps = {
    ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::avg,
};

}  // namespace

DataType type_of(ncclDataType_t type) {
  const int number = type;
  if (number < 0 || number >= ncclNumTypes)
    refuse(ncclInvalidArgument, "type {}: expected 0 (int8) to {} (float8e5m2)", number,
           ncclNumTypes - 1);
  return kTypes[static_cast<std::size_t>(number)];
}

ReduceOp op_of(ncclRedOp_t op) { return kOps[static_cast<std::size_t>(op)]; }

}  // namespace ccoll::nccl
