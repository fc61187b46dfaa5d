// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reductions made by programs: sums of contributions that are multiplied beforehand.

#include "ccoll/reduction.hpp"
#include "faces/nccl/comm.hpp"

namespace ccoll::nccl {

struct MadeReduction {
  Reduction reduction;
  const void* factor = nullptr;  ///< its place, if it is read only when a call is made
};

/// The meaning of `op` in a call of that type. Refuses one that does not exist for it.
MadeReduction reduction_of(ncclRedOp_t op, const std::shared_ptr<Comm>& comm, ncclDataType_t type);

}  // namespace ccoll::nccl
