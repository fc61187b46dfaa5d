// SPDX-License-Identifier: Apache-2.0
#pragma once

/// NCCL's numbers of types and operations as ccoll's.

#include "ccoll/types.hpp"
#include "faces/nccl/abi.hpp"

namespace ccoll::nccl {

/// Refuses numbers that are none of NCCL's types.
DataType type_of(ncclDataType_t type);

/// Whether `op` is built in, so that nobody has to make it.
constexpr bool is_built_in(ncclRedOp_t op) { return op >= 0 && op < ncclNumOps; }
/// The same for a built-in reduction.
ReduceOp op_of(ncclRedOp_t op);

}  // namespace ccoll::nccl
