// SPDX-License-Identifier: Apache-2.0
// Functions that ccoll does not have: each says so, and what to do instead. Programs link these
// symbols all the same, and a missing one would keep them from starting.
#include <cstdint>

#include "faces/nccl/handle.hpp"
#include "faces/nccl/results.hpp"

namespace ccoll::nccl {
namespace {

ncclResult_t without_device_api(const char* function) {
  return guarded(function, [&]() -> ncclResult_t {
    refuse(
        ncclInvalidUsage,
        "ccoll has no device API: kernels cannot communicate by themselves; call the collectives "
        "and messages of nccl.h on the host, which run in the stream");
  });
}

ncclResult_t without_pointer(const char* function, void** out) {
  return guarded(function, [&]() -> ncclResult_t {
    given(out, "outPtr") = nullptr;
    refuse(ncclInvalidUsage,
           "ccoll has no windows: memory of other ranks cannot be addressed; call the collectives "
           "and messages of nccl.h instead");
  });
}

ncclResult_t without_rma(const char* function, ncclComm_t comm) {
  return guarded(function, [&]() -> ncclResult_t {
    comm_of(comm);
    refuse(ncclInvalidArgument,
           "host RMA is not supported: use ncclSend and ncclRecv instead of windows and signals");
  });
}

ncclTeam_t team_of(ncclComm_t comm, bool is_alone) noexcept {
  try {
    const auto it = comm_of(comm);
    if (is_alone) return {1, 0, 1};
    return {it->size(), it->rank(), 1};
  } catch (...) {
    note_exception("ncclTeam");
    return {0, 0, 0};
  }
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, DevCommCreate, ncclComm_t /*comm*/, const void* /*requirements*/,
                void* /*devComm*/) {
  return without_device_api("ncclDevCommCreate");
}

CCOLL_NCCL_FACE(ncclResult_t, DevCommDestroy, ncclComm_t /*comm*/, const void* devComm) {
  return devComm == nullptr ? ncclSuccess : without_device_api("ncclDevCommDestroy");
}

CCOLL_NCCL_FACE(ncclResult_t, GetLsaDevicePointer, ncclWindow_t /*window*/, size_t /*offset*/,
                int /*peer*/, void** outPtr) {
  return without_pointer("ncclGetLsaDevicePointer", outPtr);
}

CCOLL_NCCL_FACE(ncclResult_t, GetPeerDevicePointer, ncclWindow_t /*window*/, size_t /*offset*/,
                int /*peer*/, void** outPtr) {
  return without_pointer("ncclGetPeerDevicePointer", outPtr);
}

CCOLL_NCCL_FACE(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t /*window*/,
                size_t /*offset*/, void** outPtr) {
  return without_pointer("ncclGetLsaMultimemDevicePointer", outPtr);
}

CCOLL_NCCL_FACE(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t /*window*/, size_t /*offset*/,
                ncclMultimemHandle_t /*multimem*/, void** outPtr) {
  return without_pointer("ncclGetMultimemDevicePointer", outPtr);
}

CCOLL_NCCL_FACE(ncclTeam_t, TeamWorld, ncclComm_t comm) { return team_of(comm, false); }
CCOLL_NCCL_FACE(ncclTeam_t, TeamLsa, ncclComm_t comm) { return team_of(comm, true); }
CCOLL_NCCL_FACE(ncclTeam_t, TeamRail, ncclComm_t comm) { return team_of(comm, false); }

CCOLL_NCCL_FACE(int, TeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank) {
  const auto own = team_of(comm, false).rank;
  return own + (rank - team.rank) * team.stride;
}

CCOLL_NCCL_FACE(int, TeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank) {
  const auto own = team_of(comm, false).rank;
  return own + (rank - team.rank) * team.stride == own ? 0 : -1;
}

CCOLL_NCCL_FACE(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam_t /*team*/, int /*barriers*/,
                void* /*handle*/, void* /*requirement*/) {
  return without_device_api("ncclLsaBarrierCreateRequirement");
}

CCOLL_NCCL_FACE(ncclResult_t, GinBarrierCreateRequirement, ncclComm_t /*comm*/, ncclTeam_t /*team*/,
                int /*barriers*/, void* /*handle*/, void* /*requirement*/) {
  return without_device_api("ncclGinBarrierCreateRequirement");
}

CCOLL_NCCL_FACE(ncclResult_t, LLA2ACreateRequirement, int /*blocks*/, int /*slots*/,
                void* /*handle*/, void* /*requirement*/) {
  return without_device_api("ncclLLA2ACreateRequirement");
}

CCOLL_NCCL_FACE(int, LLA2ACalcSlots, int /*maxElts*/, int /*maxEltSize*/) { return 0; }

CCOLL_NCCL_FACE(ncclResult_t, GinInboxA2ACreateRequirement, ncclTeam_t /*peers*/, int /*blocks*/,
                int /*size*/, void* /*handle*/, void* /*requirement*/) {
  return without_device_api("ncclGinInboxA2ACreateRequirement");
}

CCOLL_NCCL_FACE(ncclResult_t, GinOutboxCreateRequirement, int /*blocks*/, int /*size*/,
                void* /*handle*/, void* /*requirement*/) {
  return without_device_api("ncclGinOutboxCreateRequirement");
}

CCOLL_NCCL_FACE(ncclResult_t, PutSignal, const void* /*local*/, size_t /*count*/,
                ncclDataType_t /*type*/, int /*peer*/, ncclWindow_t /*window*/, size_t /*offset*/,
                int /*signal*/, int /*context*/, unsigned /*flags*/, ncclComm_t comm,
                cudaStream_t /*stream*/) {
  return without_rma("ncclPutSignal", comm);
}

CCOLL_NCCL_FACE(ncclResult_t, Signal, int /*peer*/, int /*signal*/, int /*context*/,
                unsigned /*flags*/, ncclComm_t comm, cudaStream_t /*stream*/) {
  return without_rma("ncclSignal", comm);
}

CCOLL_NCCL_FACE(ncclResult_t, WaitSignal, int /*count*/, const void* /*descriptions*/,
                ncclComm_t comm, cudaStream_t /*stream*/) {
  return without_rma("ncclWaitSignal", comm);
}
