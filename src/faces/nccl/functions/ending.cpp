// SPDX-License-Identifier: Apache-2.0
// How communicators end: in order, or at once.
#include "faces/nccl/group.hpp"
#include "faces/nccl/handle.hpp"

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, CommFinalize, ncclComm_t comm) {
  constexpr auto kFunction = "ncclCommFinalize";
  return guarded_in_group(kFunction, [&] {
    if (comm == nullptr) return ncclSuccess;
    const auto it = comm_of(comm);
    if (it->state() == Comm::State::finalised || it->state() == Comm::State::revoked)
      refuse(ncclInvalidArgument, "{} was {} before: it can only be destroyed or aborted",
             it->text(), it->state() == Comm::State::revoked ? "revoked" : "finalised");
    it->check_usable();
    return submit({.function = kFunction, .comm = it, .run = [it] { it->finalise(); }});
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommDestroy, ncclComm_t comm) {
  constexpr auto kFunction = "ncclCommDestroy";
  return guarded_in_group(kFunction, [&] {
    if (comm == nullptr) return ncclSuccess;
    const auto it = comm_of(comm);
    const auto run = [comm] { taken(comm)->destroy(); };
    // Nobody can ask a communicator that is gone: this always waits, but not for long.
    if (is_group_open()) return submit({.function = kFunction, .comm = it, .run = run});
    run();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommAbort, ncclComm_t comm) {
  constexpr auto kFunction = "ncclCommAbort";
  return guarded_in_group(kFunction, [&] {
    if (comm == nullptr) return ncclSuccess;
    const auto it = comm_of(comm);
    const auto run = [comm] { taken(comm)->abort(); };
    if (is_group_open()) return submit({.function = kFunction, .comm = it, .run = run});
    run();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommRevoke, ncclComm_t comm, int revokeFlags) {
  return guarded("ncclCommRevoke", [&] {
    const auto it = comm_of(comm);
    if (revokeFlags != 0) refuse(ncclInvalidArgument, "revokeFlags is {}: expected 0", revokeFlags);
    it->revoke();
    return ncclSuccess;
  });
}
