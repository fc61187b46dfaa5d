// SPDX-License-Identifier: Apache-2.0
// Ranks that end: by a signal, without a goodbye, or while others still work.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "job.hpp"

namespace faults {

namespace {

/// One of three is lost while the others wait for it in a call.
void lost(int signal) {
  Job job(3, [](Rank& rank) {
    rank.make();
    rank.reach(0);
    if (rank.number == 2) {
      for (;;) ::pause();
    }
    require_code(rank.sum(), {ncclRemoteError}, "a call that needs a lost rank",
                 {"ncclAllReduce", "rank 2"});
    require(rank.async_error() == ncclRemoteError, "it is the communicator's state");
    require_code(rank.sum(), {ncclRemoteError}, "the next call", {"rank 2"});
    const Watch watch;
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
    watch.within(3, "destroying a broken communicator");
    rank.reach(1);
  });
  job.wait_for(0, 3);
  ::usleep(100000);  // so that they wait
  job.signal(2, signal);
  job.wait_for(1, 2);
  if (signal == SIGSTOP) job.signal(2, SIGKILL);
  job.ends_well();
}

void killed() { lost(SIGKILL); }
void stopped() { lost(SIGSTOP); }

/// All end in the given way, without destroying what they have used.
void ends_without_destroy(void (*end)(int)) {
  for (int round = 0; round < 3; ++round) {
    Job job(3, [end](Rank& rank) {
      rank.make();
      for (int i = 0; i < 20; ++i) must(rank.sum(), "ncclAllReduce");
      end(0);
    });
    job.ends_well();
  }
}
void exits() { ends_without_destroy(std::exit); }
void exits_at_once() { ends_without_destroy(::_exit); }

/// A rank leaves its communicator explicitly while the others still work.
void leaves(void (*leave)(Rank& rank)) {
  Job job(3, [leave](Rank& rank) {
    rank.make();
    if (rank.number == 2) {
      leave(rank);
      rank.reach(0);
      rank.wait_for(1, 2);
      return;
    }
    const int peer = 1 - rank.number;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
    rank.wait_for(0, 1);
    bool goes_on = true;
    while (goes_on) {
      must(rank.number == 0 ? rank.send(peer) : rank.receive(peer), "a message");
      // Rank 0 decides when they stop.
      goes_on = std::chrono::steady_clock::now() < until;
      std::int32_t word = goes_on ? 1 : 0;
      must(rank.number == 0 ? ncclSend(&word, 1, ncclInt32, peer, rank.comm, nullptr)
                            : ncclRecv(&word, 1, ncclInt32, peer, rank.comm, nullptr),
           "a word");
      goes_on = word != 0;
    }
    require(rank.async_error() == ncclSuccess, "a rank that nobody needs breaks nothing");
    require_code(rank.sum(), {ncclRemoteError}, "a call that needs who has left", {"rank 2"});
    rank.reach(1);
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well();
}
void destroys_early() {
  leaves([](Rank& rank) { must(ncclCommDestroy(rank.comm), "ncclCommDestroy"); });
}
void aborts_idle() {
  leaves([](Rank& rank) { must(ncclCommAbort(rank.comm), "ncclCommAbort"); });
}

/// Its last sends are received although its process has ended.
void exits_while_a_peer_works() {
  Job job(2, [](Rank& rank) {
    rank.make();
    if (rank.number == 1) {
      for (int i = 0; i < 10; ++i) must(rank.send(0), "ncclSend");
      std::exit(0);
    }
    ::usleep(500000);
    require(rank.async_error() == ncclSuccess, "the end of a process breaks nothing by itself");
    for (int i = 0; i < 10; ++i) must(rank.receive(1), "ncclRecv of what was sent");
    require_code(rank.receive(1), {ncclRemoteError}, "what was not sent", {"rank 1"});
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well();
}

/// The survivors go on without the killed rank.
void shrinks_after_a_loss() {
  Job job(4, [](Rank& rank) {
    rank.make();
    rank.reach(0);
    if (rank.number == 1) {
      for (;;) ::pause();
    }
    require_code(rank.sum(), {ncclRemoteError}, "a call that needs a lost rank", {"rank 1"});
    int excluded[] = {1};
    ncclComm_t rest = nullptr;
    must(ncclCommShrink(rank.comm, excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT),
         "ncclCommShrink");
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy of the old one");
    int number = -1;
    int size = 0;
    must(ncclCommUserRank(rest, &number), "ncclCommUserRank");
    must(ncclCommCount(rest, &size), "ncclCommCount");
    require(size == 3 && number == rank.number - (rank.number > 1 ? 1 : 0), "ranks move up");
    std::int32_t value = number;
    must(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rest, nullptr), "ncclAllReduce");
    require(value == 3, "the sum of those that are left is right");
    must(ncclCommDestroy(rest), "ncclCommDestroy");
  });
  job.wait_for(0, 4);
  job.signal(1, SIGKILL);
  job.ends_well();
}

/// Each rank revokes by itself, and goes on in a smaller communicator.
void shrinks_after_revoking() {
  Job job(3, [](Rank& rank) {
    rank.make();
    rank.reach(0);
    rank.wait_for(0, 3);
    must(ncclCommRevoke(rank.comm, 0), "ncclCommRevoke");
    require_code(rank.sum(), {ncclInvalidUsage}, "a call on it", {"revoked"});
    if (rank.number == 2) {
      must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
      return;
    }
    int excluded[] = {2};
    ncclComm_t rest = nullptr;
    must(ncclCommShrink(rank.comm, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT),
         "ncclCommShrink");
    std::int32_t value = 1;
    must(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rest, nullptr), "ncclAllReduce");
    require(value == 2, "the sum is right");
    must(ncclCommDestroy(rest), "ncclCommDestroy");
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well();
}

/// A forked child cannot use the communicators: it gets an error, and its end harms nobody.
void forks() {
  Job job(2, [](Rank& rank) {
    rank.make();
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 0;
      int count = 0;
      ncclResult_t state = ncclSuccess;
      if (ncclCommCount(rank.comm, &count) != ncclInvalidUsage) status |= 1;
      if (ncclCommGetAsyncError(rank.comm, &state) != ncclInvalidUsage) status |= 2;
      if (rank.sum() != ncclInvalidUsage) status |= 4;
      if (ncclCommDestroy(rank.comm) != ncclInvalidUsage) status |= 8;
      if (std::string(ncclGetLastError(nullptr)).find("fork") == std::string::npos) status |= 16;
      std::exit(status);
    }
    int status = -1;
    Rank::wait_until("the child's end", [&] { return ::waitpid(child, &status, WNOHANG) != 0; });
    require(status == 0, "a forked child is refused; its status is " + std::to_string(status));
    must(rank.sum(), "ncclAllReduce after the child's end");
    must(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  });
  job.ends_well();
}

}  // namespace

std::vector<Scenario> scenarios_of_ends() {
  return {{"a rank is killed", killed},
          {"a rank is stopped", stopped},
          {"all exit without destroying", exits},
          {"all exit at once", exits_at_once},
          {"a rank destroys while others work", destroys_early},
          {"a rank aborts while it is idle", aborts_idle},
          {"a rank exits while its peer works", exits_while_a_peer_works},
          {"those that are left shrink", shrinks_after_a_loss},
          {"all revoke, and two shrink", shrinks_after_revoking},
          {"a forked child is refused", forks}};
}

}  // namespace faults
