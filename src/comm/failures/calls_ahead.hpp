// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls of other ranks that this rank has yet to make.

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "comm/record/history.hpp"
#include "control/control.hpp"
#include "schedule/problem.hpp"
#include "system/locks.hpp"

namespace ccoll {

/// Keeps calls that neighbours have published until this rank makes its own of the same number,
/// which is compared with them. The service thread adds calls; the holder of the owner flag takes
/// them.
class CallsAhead {
 public:
  /// Keeps the call, once, unless `mine` has one of that number: then it returns false.
  bool keep(Rank from, const Waiting& call, const History& mine) {
    return calls_.with([&](Calls& calls) {
      if (call.sequence < mine.calls()) return false;
      const bool known = std::ranges::any_of(calls, [&](const auto& entry) {
        return entry.first == from && entry.second.sequence == call.sequence;
      });
      if (!known && calls.size() < History::kCalls) calls.emplace_back(from, call);
      // A call that begins just now may miss it; the next one, or the communicator's end, does not.
      has_any_.store(true, std::memory_order_release);
      return true;
    });
  }
  /// Spares the lock in the usual case.
  bool has_any() const { return has_any_.load(std::memory_order_acquire); }
  /// Removes the calls that `mine` has reached, after `compare` has seen them. Returns the first
  /// failure that it finds.
  template <typename Compare>
  Status compare_reached(const History& mine, Compare compare) {
    return calls_.with([&](Calls& calls) {
      Status status;
      const auto reached = mine.calls();
      std::erase_if(calls, [&](const auto& entry) {
        const auto& [peer, call] = entry;
        if (call.sequence >= reached) return false;
        std::optional<Failure> found = compare(peer, call);
        if (status && found) status = tl::unexpected(std::move(*found));
        return true;
      });
      has_any_.store(!calls.empty(), std::memory_order_relaxed);
      return status;
    });
  }
  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { calls_.forget_lock(); }

 private:
  using Calls = std::vector<std::pair<Rank, Waiting>>;

  Guarded<Calls> calls_;
  std::atomic<bool> has_any_{false};
};

}  // namespace ccoll
