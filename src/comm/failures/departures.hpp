// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of a communicator that have gone, as the control connections tell. This alone ends no
/// call: links deliver what the rank sent, and only a call that needs more of it fails. The service
/// thread writes it; any thread reads it.

#include <chrono>
#include <new>
#include <optional>
#include <vector>

#include "core/result.hpp"
#include "schedule/problem.hpp"
#include "system/locks.hpp"
#include "transport/link.hpp"

namespace ccoll {

class Departures {
 public:
  using Clock = std::chrono::steady_clock;

  struct Gone {
    Rank rank = 0;
    Departure how = Departure::left;
    Failure why;  ///< for calls that need the rank
    Clock::time_point heard;
  };

  /// Ignores later news about the same rank.
  void add(Gone gone);
  /// Returns those that were added since the last call.
  std::vector<Gone> take();

  /// The loss that a failed call reports: of the rank that `failure` blames if that is lost, else
  /// the first one.
  std::optional<Failure> loss_behind(const std::optional<Failure>& failure = std::nullopt) const;
  /// When the last loss was heard of; nothing if there is none.
  std::optional<Clock::time_point> last_loss() const;
  /// Ranks whose goodbye came at least `settled` before `now`. Lowers `next` to when there will be
  /// more of them.
  std::vector<Rank> long_gone(Clock::duration settled, Clock::time_point now,
                              Clock::time_point& next) const;

  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { news_.forget_lock(); }

 private:
  struct News {
    std::vector<Gone> all;  ///< in the order in which they came
    std::size_t taken = 0;
  };

  Guarded<News> news_;
};

}  // namespace ccoll
