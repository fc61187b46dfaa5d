// SPDX-License-Identifier: Apache-2.0
#pragma once

/// ncclComm_t: the communicator behind it, and whether it still has one.

#include <memory>

#include "faces/nccl/comm.hpp"

namespace ccoll::nccl {

ncclComm_t new_handle(std::shared_ptr<Comm> comm);

/// The communicator behind a handle. Refuses NULL, one whose communicator was destroyed or aborted,
/// and one of the process that this one was forked from.
std::shared_ptr<Comm> comm_of(ncclComm_t handle);

/// The same, and the handle leads nowhere afterwards.
std::shared_ptr<Comm> taken(ncclComm_t handle);

}  // namespace ccoll::nccl
