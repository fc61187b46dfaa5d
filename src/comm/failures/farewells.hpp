// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ranks have the last calls of a rank that closes its communicator, or have closed theirs.
/// Until both neighbours have, the one that closes waits for a moment: else two that close at once
/// could each be gone before the other's calls come, and a difference would be told to nobody.
///
/// Where a call's sizes are known to two ranks alone, one of the two may find a difference after
/// the others' part is over. After such calls rank 0 counts those that have closed, and says when
/// all have; a rank that closes waits for that word, which no news of a failure can follow. Written
/// by the service thread and by close(), read by any.

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
  /// That rank of the job has closed, has what this one told, or has gone: it is not waited for.
  void add(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    ranks_.insert(rank);
    changed_.notify_all();
  }
  /// That rank has closed. True once: when it is the last of `size` ranks.
  bool all_closed(std::uint32_t rank, std::size_t size) {
    add(rank);
    const std::lock_guard lock(mutex_);
    return closed_.insert(rank).second && closed_.size() == size;
  }
  /// All have closed, or it is known already what a rank that closes would be told.
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
