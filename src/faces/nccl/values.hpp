// SPDX-License-Identifier: Apache-2.0
#pragma once

/// NCCL's numbers of types and operations as ccoll's, and its names of algorithms and functions.

#include <string>
#include <string_view>

#include "ccoll/types.hpp"
#include "faces/nccl/abi.hpp"

namespace ccoll::nccl {

/// Refuses numbers that are none of NCCL's types.
DataType type_of(ncclDataType_t type);

/// Whether `op` is built in, so that nobody has to make it.
constexpr bool is_built_in(ncclRedOp_t op) { return op >= 0 && op < ncclNumOps; }
/// The same for a built-in reduction.
ReduceOp op_of(ncclRedOp_t op);

std::string in_lower_case(std::string text);
/// Whether NCCL has an algorithm of that name, in letters of any case.
bool is_algorithm(std::string_view name);
/// "ring, tree, …".
std::string algorithm_names();
/// The same for functions whose algorithm NCCL lets users choose.
bool is_tuned_function(std::string_view name);
std::string tuned_function_names();

}  // namespace ccoll::nccl
