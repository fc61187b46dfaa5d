// SPDX-License-Identifier: Apache-2.0
// ncclCommAbort from a second thread, in each state of the communicator.
#include <unistd.h>

#include <thread>

#include "job.hpp"

namespace faults {

namespace {

/// A thread's call cannot end; another thread aborts.
void aborted_in(ncclResult_t (*call)(Rank& rank)) {
  Job job(2, [call](Rank& rank) {
    rank.make();
    if (rank.number == 1) {
      rank.wait_for(0, 1);
      return;  // makes no call, and its exit breaks nothing more
    }
    ncclResult_t ended = ncclSuccess;
    std::thread thread([&] { ended = call(rank); });
    ::usleep(200000);
    const Watch watch;
    const auto code = ncclCommAbort(rank.comm);
    thread.join();
    watch.within(3, "aborting");
    must(code, "ncclCommAbort");
    require(ended != ncclSuccess && ended != ncclInProgress, "the call ends, and not well");
    rank.reach(0);
  });
  job.ends_well();
}

void in_a_collective() {
  aborted_in([](Rank& rank) { return rank.sum(); });
}
void in_a_receive() {
  aborted_in([](Rank& rank) { return rank.receive(1); });
}
void in_a_group() {
  aborted_in([](Rank& rank) {
    must(ncclGroupStart(), "ncclGroupStart");
    float value = 0;
    must(ncclRecv(&value, 1, ncclFloat32, 1, rank.comm, nullptr), "ncclRecv in a group");
    return ncclGroupEnd();
  });
}
void in_a_split() {
  aborted_in([](Rank& rank) {
    ncclComm_t part = nullptr;
    return ncclCommSplit(rank.comm, 0, 0, &part, nullptr);
  });
}

/// The peer's call ends and names the rank that aborted.
void the_peer_is_told() {
  Job job(2, [](Rank& rank) {
    rank.make();
    rank.reach(0);
    rank.wait_for(0, 2);
    if (rank.number == 1) {
      const Watch watch;
      require_code(rank.sum(), {ncclRemoteError}, "a call whose peer aborts", {"rank 0"});
      watch.within(10, "hearing of it");
      must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
      return;
    }
    std::thread thread([&] { rank.receive(1); });
    ::usleep(300000);
    must(ncclCommAbort(rank.comm), "ncclCommAbort");
    thread.join();
  });
  job.ends_well();
}

ncclComm_t begin_to_make(Rank& rank, int count) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const auto id = rank.id();
  require_code(ncclCommInitRankConfig(&comm, count, id, rank.number, &config), {ncclInProgress},
               "ncclCommInitRankConfig");
  return comm;
}

/// Its start-up waits for a rank that never comes.
void while_initialising() {
  Job job(2, [](Rank& rank) {
    for (int wait_us : {0, 1000, 30000, 400000}) {
      if (rank.number == 1) return;
      rank.comm = begin_to_make(rank, 3);
      ::usleep(static_cast<unsigned>(wait_us));
      const Watch watch;
      must(ncclCommAbort(rank.comm), "ncclCommAbort");
      watch.within(3, "aborting a start-up");
    }
  });
  job.ends_well();
}

/// One that is ready, and one that is idle.
void while_idle() {
  Job job(2, [](Rank& rank) {
    rank.make();
    const Watch watch;
    std::thread([&] { must(ncclCommAbort(rank.comm), "ncclCommAbort"); }).join();
    watch.within(3, "aborting while idle");
  });
  job.ends_well();
}

/// Blocking start-ups in a group, whose handles exist before they are complete.
void while_a_blocking_start_waits() {
  Job job(1, [](Rank& rank) {
    ncclComm_t comm = nullptr;
    ncclResult_t ended = ncclSuccess;
    const auto id = rank.id();
    std::thread thread([&] {
      must(ncclGroupStart(), "ncclGroupStart");
      must(ncclCommInitRank(&comm, 2, id, 0), "ncclCommInitRank in a group");
      rank.reach(0);
      ended = ncclGroupEnd();
    });
    rank.wait_for(0, 1);
    ::usleep(200000);
    require(comm != nullptr, "in a group the handle is there at once");
    const Watch watch;
    must(ncclCommAbort(comm), "ncclCommAbort");
    thread.join();
    watch.within(3, "aborting a start-up");
    require(ended != ncclSuccess, "the group ends, and not well");
  });
  job.ends_well();
}

}  // namespace

std::vector<Scenario> scenarios_of_aborts() {
  return {{"abort in a collective", in_a_collective},
          {"abort in a receive", in_a_receive},
          {"abort in a group", in_a_group},
          {"abort in a split", in_a_split},
          {"abort is told to the peer", the_peer_is_told},
          {"abort while initialising", while_initialising},
          {"abort while a group starts up", while_a_blocking_start_waits},
          {"abort while idle", while_idle}};
}

}  // namespace faults
