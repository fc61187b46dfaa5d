// SPDX-License-Identifier: Apache-2.0
// Communicators answer questions about themselves.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "faces/nccl/handle.hpp"
#include "faces/nccl/results.hpp"
#include "faces/nccl/versioned.hpp"

namespace ccoll::nccl {
namespace {

/// ncclCommProperties_t, by its offsets.
struct Properties {
  std::size_t size;
  std::uint32_t magic;
  std::uint32_t version;
  int rank;
  int ranks;
  int cuda_device;
  int nvml_device;
  bool has_device_api;
  bool has_multimem;
  // From 2.29.4 on:
  int gin_type;
  int lsa_teams;
  bool has_host_rma;
  int railed_gin_type;
};
static_assert(offsetof(Properties, has_multimem) == 33 && offsetof(Properties, gin_type) == 36 &&
              offsetof(Properties, railed_gin_type) == 48 && sizeof(Properties) == 56);
constexpr std::size_t kFirstFields = offsetof(Properties, has_multimem) + sizeof(bool);
constexpr std::uint32_t kLastWithFirstFields = 22903;

void tell_properties(const Comm& comm, void* to) {
  const auto asked = read_head(to, {.name = "props",
                                    .initializer = "NCCL_COMM_PROPERTIES_INITIALIZER",
                                    .refusal = ncclInvalidUsage});
  if (asked.version > kKnownLevel)
    refuse(ncclInvalidUsage, "props: its version is {}, and this library knows those up to {}",
           asked.version, kKnownLevel);
  Properties told{};
  told.size = asked.size;
  told.magic = asked.magic;
  told.version = asked.version;
  told.rank = comm.rank();
  told.ranks = comm.size();
  told.cuda_device = told.nvml_device = comm.device();
  told.lsa_teams = comm.size();
  const auto known = asked.version > kLastWithFirstFields ? sizeof told : kFirstFields;
  std::memcpy(to, &told, std::min(asked.size, known));
}

ncclResult_t tell(const char* function, ncclComm_t comm, int* to, const char* name,
                  int (Comm::*ask)() const) {
  return guarded(function, [&] {
    const auto it = comm_of(comm);
    given(to, name);
    it->check_known();
    *to = ((*it).*ask)();
    return ncclSuccess;
  });
}

/// All flags of ncclCommSuspend so far.
constexpr int kSuspendMemory = 1;

ncclResult_t suspend(const char* function, ncclComm_t comm, bool suspended) {
  return guarded(function, [&] {
    const auto it = comm_of(comm);
    it->check_open();
    if (!it->suspend(suspended))
      refuse(ncclInvalidUsage, "{} is {}suspended", it->text(), suspended ? "already " : "not ");
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, CommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  return guarded("ncclCommGetAsyncError", [&] {
    const auto it = comm_of(comm);
    given(asyncError, "asyncError") = it->async_error();
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommCount, const ncclComm_t comm, int* count) {
  return tell("ncclCommCount", comm, count, "count", &Comm::size);
}

CCOLL_NCCL_FACE(ncclResult_t, CommCuDevice, const ncclComm_t comm, int* device) {
  return tell("ncclCommCuDevice", comm, device, "device", &Comm::device);
}

CCOLL_NCCL_FACE(ncclResult_t, CommUserRank, const ncclComm_t comm, int* rank) {
  return tell("ncclCommUserRank", comm, rank, "rank", &Comm::rank);
}

CCOLL_NCCL_FACE(ncclResult_t, CommQueryProperties, ncclComm_t comm, void* props) {
  return guarded("ncclCommQueryProperties", [&] {
    const auto it = comm_of(comm);
    it->check_known();
    given(static_cast<char*>(props), "props");
    tell_properties(*it, props);
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommSuspend, ncclComm_t comm, int flags) {
  constexpr auto kFunction = "ncclCommSuspend";
  if (flags != kSuspendMemory)
    return guarded(kFunction, [&]() -> ncclResult_t {
      comm_of(comm);
      refuse(ncclInvalidArgument, "flags is {}: expected 1 (memory)", flags);
    });
  return suspend(kFunction, comm, true);
}

CCOLL_NCCL_FACE(ncclResult_t, CommResume, ncclComm_t comm) {
  return suspend("ncclCommResume", comm, false);
}

CCOLL_NCCL_FACE(ncclResult_t, CommMemStats, ncclComm_t comm, int stat, std::uint64_t* value) {
  return guarded("ncclCommMemStats", [&] {
    enum { kSuspendable, kIsSuspended, kPersistent, kTotal };
    const auto it = comm_of(comm);
    it->check_known();
    auto& to = given(value, "value");
    if (stat < kSuspendable || stat > kTotal)
      refuse(ncclInvalidArgument, "stat is {}: expected 0 (suspendable) to 3 (total)", stat);
    if (stat == kSuspendable) {
      to = 0;
    } else if (stat == kIsSuspended) {
      to = it->is_suspended() ? 1 : 0;
    } else {
      const auto counted = it->communicator().counters();
      to = counted.device_memory_bytes + counted.device_workspace_bytes;
    }
    return ncclSuccess;
  });
}
