// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/values.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/text.hpp"
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

constexpr std::string_view kAlgorithms[] = {
    "ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
/// Those that NCCL_ALGO can name.
constexpr std::string_view kTunedFunctions[] = {"broadcast", "reduce", "allgather", "reducescatter",
                                                "allreduce"};

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, in_lower_case(std::string(name))) != names.end();
}

}  // namespace

DataType type_of(ncclDataType_t type) {
  const int number = type;
  if (number < 0 || number >= ncclNumTypes)
    refuse(ncclInvalidArgument, "type {}: expected 0 (int8) to {} (float8e5m2)", number,
           ncclNumTypes - 1);
  return kTypes[static_cast<std::size_t>(number)];
}

ReduceOp op_of(ncclRedOp_t op) { return kOps[static_cast<std::size_t>(op)]; }

std::string in_lower_case(std::string text) {
  for (auto& each : text)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return text;
}

bool is_algorithm(std::string_view name) { return has(kAlgorithms, name); }
std::string algorithm_names() { return joined(kAlgorithms); }

bool is_tuned_function(std::string_view name) { return has(kTunedFunctions, name); }
std::string tuned_function_names() { return joined(kTunedFunctions); }

}  // namespace ccoll::nccl
