// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks that have a closing rank's last calls, or have closed as well. The closing rank waits
/// a moment until both neighbours have them. Otherwise two that close at once could be gone before
/// each other's calls come, and nobody would hear of a difference.
///
/// If only two ranks know a call's sizes, one of them may find a difference after the others' part
/// is over. After such calls rank 0 counts the ranks that have closed, and tells when all have. A
/// closing rank waits for that, and no news of a failure can follow it. The service thread and
/// close() write; any thread reads.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <set>
#include <vector>

namespace ccoll {

class Farewells {
 public:
  /// Notes a rank that has closed, has this rank's calls, or has gone: nobody waits for it.
  void add(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    ranks_.insert(rank);
    changed_.notify_all();
  }
  /// Notes that the rank has closed. True once: when it is the last of `size` ranks.
  bool all_closed(std::uint32_t rank, std::size_t size) {
    add(rank);
    const std::lock_guard lock(mutex_);
    return closed_.insert(rank).second && closed_.size() == size;
  }
  /// Ends all waits: all have closed, or this rank already knows what it would be told.
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  /// Returns after end(), or after `limit`.
  void await_end(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return ended_; });
  }
  /// Returns when all of `ranks` were added, or after `limit`.
  void await(const std::vector<std::uint32_t>& ranks, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] {
      return std::ranges::all_of(ranks, [&](std::uint32_t rank) { return ranks_.contains(rank); });
    });
  }
  /// In a forked child, where the threads that held the lock or waited may be gone.
  void forget_lock() {
    new (&mutex_) std::mutex;
    new (&changed_) std::condition_variable;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::set<std::uint32_t> ranks_;
  std::set<std::uint32_t> closed_;
  bool ended_ = false;
};

}  // namespace ccoll
