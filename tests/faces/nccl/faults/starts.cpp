// SPDX-License-Identifier: Apache-2.0
// Start-ups that cannot succeed. If a rank does not come, the time limit is short here.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "job.hpp"

namespace faults {

namespace {

ncclResult_t start(Rank& rank, int count, const ncclUniqueId& id, int number) {
  rank.comm = nullptr;
  return ncclCommInitRank(&rank.comm, count, id, number);
}

void rank_is_missing() {
  Job job(3, [](Rank& rank) {
    ::setenv("CCOLL_NCCL_START_TIMEOUT", "2", 1);
    const auto id = rank.id();
    if (rank.number == 1) {
      rank.wait_for(0, 2);
      return;
    }
    const Watch watch;
    require_code(start(rank, 3, id, rank.number), {ncclRemoteError},
                 "a start-up whose rank 1 does not come", {"ncclCommInitRank"});
    // Ranks that wait at rank 0 may know only that the job has not begun.
    if (rank.number == 0) {
      require(std::strstr(ncclGetLastError(nullptr), "rank 1") != nullptr, "rank 1 is named");
    }
    watch.within(15, "a start-up with a limit of 2 s");
    require(rank.comm == nullptr, "there is no communicator");
    rank.reach(0);
  });
  job.ends_well();
}

/// A second communicator with the same id is refused, and the first is unharmed.
void id_is_used_twice() {
  Job job(2, [](Rank& rank) {
    ::setenv("CCOLL_NCCL_START_TIMEOUT", "3", 1);
    const auto id = rank.id();
    must(start(rank, 2, id, rank.number), "ncclCommInitRank");
    ncclComm_t const first = rank.comm;
    must(rank.sum(), "ncclAllReduce");
    const Watch watch;
    const auto code = start(rank, 2, id, rank.number);
    require(code != ncclSuccess, "an id makes one communicator");
    require(rank.comm == nullptr, "there is no second communicator");
    require(std::strlen(ncclGetLastError(nullptr)) > 0, "there is a text");
    watch.within(15, "refusing an id that was used");
    rank.comm = first;
    must(rank.sum(), "ncclAllReduce of the first one");
    must(ncclCommDestroy(first), "ncclCommDestroy");
  });
  job.ends_well();
}

void maker_is_dead() {
  Job job(3, [](Rank& rank) {
    ::setenv("CCOLL_NCCL_START_TIMEOUT", "3", 1);
    const auto id = rank.id();
    if (rank.number == 0) return;
    ::usleep(300000);
    const Watch watch;
    const auto code = start(rank, 2, id, rank.number - 1);
    require_code(code, {ncclSystemError, ncclRemoteError}, "an id whose maker has gone",
                 {"ncclCommInitRank"});
    watch.within(15, "a start-up whose id's maker has gone");
  });
  job.ends_well();
}

void two_are_one_rank() {
  Job job(3, [](Rank& rank) {
    ::setenv("CCOLL_NCCL_START_TIMEOUT", "3", 1);
    const auto id = rank.id();
    const int claimed = rank.number == 2 ? 1 : rank.number;
    const Watch watch;
    const auto code = start(rank, 3, id, claimed);
    require(code != ncclSuccess && rank.comm == nullptr, "two that are one rank are no job");
    watch.within(15, "refusing a doubled rank");
    // Each rank must stay, because it may be the only one that can inform another.
    rank.reach(0);
    rank.wait_for(0, 3);
  });
  job.ends_well();
}

void sizes_differ() {
  Job job(2, [](Rank& rank) {
    const auto id = rank.id();
    const Watch watch;
    const auto code = start(rank, 2 + rank.number, id, rank.number);
    require(code == ncclInvalidUsage && rank.comm == nullptr,
            "ranks of different sizes are no job");
    watch.within(15, "refusing it");
    rank.reach(0);
    rank.wait_for(0, 2);
  });
  job.ends_well();
}

/// Without a driver, the error names the variable that lets the program run.
void no_driver() {
  Job job(1, [](Rank& rank) {
    if (::access("/dev/nvidiactl", F_OK) == 0) return;
    ::unsetenv("CCOLL_NCCL_HOST");
    ncclUniqueId id;
    must(ncclGetUniqueId(&id), "ncclGetUniqueId needs no driver");
    require_code(start(rank, 1, id, 0), {ncclUnhandledCudaError}, "ncclCommInitRank",
                 {"CCOLL_NCCL_HOST"});
    ncclComm_t comm = nullptr;
    require_code(ncclCommInitAll(&comm, 1, nullptr), {ncclUnhandledCudaError}, "ncclCommInitAll",
                 {"CCOLL_NCCL_HOST"});
    void* data = nullptr;
    require_code(ncclMemAlloc(&data, 4096), {ncclUnhandledCudaError}, "ncclMemAlloc",
                 {"CCOLL_NCCL_HOST"});
  });
  job.ends_well();
}

/// A requested version that is valid, and one that is not.
void version_is_told() {
  Job job(2, [](Rank& rank) {
    ::setenv("CCOLL_NCCL_VERSION", rank.number == 0 ? "22005" : "new", 1);
    int version = 0;
    const auto code = ncclGetVersion(&version);
    if (rank.number == 0) {
      must(code, "ncclGetVersion");
      require(version == 22005, "the version is as the variable says");
    } else {
      require(code != ncclSuccess || version == 22809, "a version that is none is not reported");
    }
  });
  job.ends_well();
}

}  // namespace

std::vector<Scenario> scenarios_of_starts() {
  return {{"a rank does not come", rank_is_missing},    {"an id is used twice", id_is_used_twice},
          {"an id's maker is dead", maker_is_dead},     {"two are one rank", two_are_one_rank},
          {"ranks give different sizes", sizes_differ}, {"there is no driver", no_driver},
          {"the version is another's", version_is_told}};
}

}  // namespace faults
