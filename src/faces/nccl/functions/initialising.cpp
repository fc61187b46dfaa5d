// SPDX-License-Identifier: Apache-2.0
// ncclCommInit* and related functions.
#include "ccoll/store.hpp"
#include "faces/nccl/group.hpp"
#include "faces/nccl/handle.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/start.hpp"
#include "rendezvous/most_ranks.hpp"

namespace ccoll::nccl {
namespace {

void check_rank(int rank, int size) {
  if (size < 1 || size > kMostRanksOfJob)
    refuse(ncclInvalidArgument, "nranks is {}: expected 1 to {}", size, kMostRanksOfJob);
  if (rank < 0 || rank >= size)
    refuse(ncclInvalidArgument, "rank {} of {}: expected 0 to {}", rank, size, size - 1);
}

/// Hands out a communicator at once, and starts it now, in a thread, or at the group's end.
ncclResult_t begin(const char* function, ncclComm_t* out, Comm::Place place, const Config& config,
                   const Meeting& at) {
  const auto comm = std::make_shared<Comm>(place, config);
  const auto handle = new_handle(comm);
  *out = handle;
  const auto undo = [out, handle] {
    *out = nullptr;
    try {
      taken(handle);
    } catch (const Refusal&) {
      // Another thread has aborted it.
    }
  };
  Job job{.function = function,
          .comm = comm,
          .run = [comm, at] { start(comm, at, comm); },
          .undo = undo};
  return submit(std::move(job));
}

ncclResult_t init(const char* function, ncclComm_t* out, int size, int rank, const ncclUniqueId& id,
                  const void* config) noexcept {
  return guarded_in_group(function, [&] {
    given(out, "comm") = nullptr;
    check_rank(rank, size);
    const auto read = read_config(config);
    check_environment();
    return begin(function, out, {rank, size, device_of_thread()}, read, meeting_of(id));
  });
}

void check_device(int device, int count) {
  if (device < 0 || device >= count)
    refuse(ncclInvalidArgument, "device {}: expected 0 to {}", device, count - 1);
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, CommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                int rank) {
  return init("ncclCommInitRank", comm, nranks, rank, commId, nullptr);
}

CCOLL_NCCL_FACE(ncclResult_t, CommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                int rank, ncclConfig_t* config) {
  return init("ncclCommInitRankConfig", comm, nranks, rank, commId, config);
}

CCOLL_NCCL_FACE(ncclResult_t, CommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank,
                int nId, ncclUniqueId* commIds, ncclConfig_t* config) {
  constexpr auto kFunction = "ncclCommInitRankScalable";
  const auto checked = guarded_in_group(kFunction, [&] {
    given(newcomm, "newcomm") = nullptr;
    given(commIds, "commIds");
    if (nId < 1 || nId > nranks)
      refuse(ncclInvalidArgument, "nId is {}, with {} ranks: expected 1 to {}", nId, nranks,
             nranks);
    return ncclSuccess;
  });
  if (checked != ncclSuccess) return checked;
  // All ranks have the ids in one order; the other ids' stores stay unused.
  return init(kFunction, newcomm, nranks, myrank, commIds[0], config);
}

CCOLL_NCCL_FACE(ncclResult_t, CommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  constexpr auto kFunction = "ncclCommInitAll";
  return guarded_in_group(kFunction, [&] {
    given(comm, "comm");
    if (ndev < 0 || ndev > ccoll::kMostRanksOfJob)
      refuse(ncclInvalidArgument, "ndev is {}: expected 0 to {}", ndev, ccoll::kMostRanksOfJob);
    check_environment();
    const bool has_devices = !settings().host;
    const int count = has_devices ? device::count() : 0;
    for (int i = 0; i < ndev; i++) {
      comm[i] = nullptr;
      if (has_devices) check_device(devlist == nullptr ? i : devlist[i], count);
    }
    if (ndev == 0) return ncclSuccess;
    const std::shared_ptr<ccoll::Store> store = ccoll::make_inproc_store();
    begin_group();
    for (int i = 0; i < ndev; i++) {
      const int device = has_devices ? (devlist == nullptr ? i : devlist[i]) : ccoll::kHost;
      begin(kFunction, &comm[i], {i, ndev, device}, {}, store);
    }
    return end_group();
  });
}
