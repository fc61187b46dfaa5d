// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ranks have the last calls of a rank that closes its communicator, or have closed theirs.
/// Until both neighbours have, the one that closes waits for a moment: else two that close at once
/// could each be gone before the other's calls come, and a difference would be told to nobody.
/// Written by the service thread, read by any.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
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
  /// Returns when all of `ranks` were added, or after `limit`.
  void await(const std::vector<std::uint32_t>& ranks, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] {
      return std::ranges::all_of(ranks, [&](std::uint32_t rank) { return ranks_.contains(rank); });
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint32_t> ranks_;  // guarded by mutex_
};

}  // namespace ccoll
