// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks that have a closing rank's last calls, or have closed as well. The closing rank waits
/// a moment until both neighbours have them. Otherwise two that close at once could be gone before
/// each other's calls come, and nobody would hear of a difference.
///
/// If only two ranks know a call's sizes, one of them may find a difference after the others' part
/// is over. After such calls rank 0 counts the ranks that have closed, and tells when all have. A
/// closing rank waits for that, and no news of a failure can follow it. The service thread and
/// close() write; any thread reads. Waits go by the Clock: other ranks and the service thread take
/// real time.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <new>
#include <set>
#include <vector>

#include "core/deadline.hpp"
#include "system/locks.hpp"

namespace ccoll {

class Farewells {
 public:
  /// Notes a rank that has closed, has this rank's calls, or has gone: nobody waits for it.
  void add(std::uint32_t rank) {
    const auto known = known_.lock();
    known->ranks.insert(rank);
    changed_.notify_all();
  }
  /// Notes that the rank has closed. True once: when it is the last of `size` ranks.
  bool all_closed(std::uint32_t rank, std::size_t size) {
    add(rank);
    const auto known = known_.lock();
    return known->closed.insert(rank).second && known->closed.size() == size;
  }
  /// Ends all waits: all have closed, or this rank already knows what it would be told.
  void end() {
    const auto known = known_.lock();
    known->ended = true;
    changed_.notify_all();
  }
  /// Returns after end(), or after `limit`.
  void await_end(std::chrono::milliseconds limit) {
    known_.lock().wait_until(changed_, deadline_after(limit),
                             [](const Known& known) { return known.ended; });
  }
  /// Returns when all of `ranks` were added, or after `limit`.
  void await(const std::vector<std::uint32_t>& ranks, std::chrono::milliseconds limit) {
    known_.lock().wait_until(changed_, deadline_after(limit), [&](const Known& known) {
      return std::ranges::all_of(ranks,
                                 [&](std::uint32_t rank) { return known.ranks.contains(rank); });
    });
  }
  /// In a forked child, where the threads that held the lock or waited may be gone.
  void forget_lock() {
    known_.forget_lock();
    new (&changed_) std::condition_variable;
  }

 private:
  struct Known {
    std::set<std::uint32_t> ranks;
    std::set<std::uint32_t> closed;
    bool ended = false;
  };
  Guarded<Known> known_;
  std::condition_variable changed_;
};

}  // namespace ccoll
