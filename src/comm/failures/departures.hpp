// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ranks of a communicator have gone, as the control connections tell. A rank that has gone
/// ends no call by that: links deliver what it sent, and only a call that needs more of it fails.
/// Written by the service thread, read by any.

#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "core/result.hpp"
#include "schedule/problem.hpp"
#include "transport/link.hpp"

namespace ccoll {

class Departures {
 public:
  using Clock = std::chrono::steady_clock;

  struct Gone {
    Rank rank = 0;
    Departure how = Departure::left;
    Failure why;  ///< of a call that needs the rank
    Clock::time_point heard;
  };

  /// The first word about a rank counts.
  void add(Gone gone);
  /// Those that were added since this was last called.
  std::vector<Gone> take();

  /// What a call is told that fails because of a loss: of the one that `failure` blames if that is
  /// lost, else of the first.
  std::optional<Failure> loss_behind(const std::optional<Failure>& failure = std::nullopt) const;
  /// When the last loss was heard of; nothing if there is none.
  std::optional<Clock::time_point> last_loss() const;
  /// Those whose goodbye came at least `settled` before `now`; `next`: not later than when there
  /// will be more of them.
  std::vector<Rank> long_gone(Clock::duration settled, Clock::time_point now,
                              Clock::time_point& next) const;

  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { new (&mutex_) std::mutex; }

 private:
  mutable std::mutex mutex_;
  std::vector<Gone> all_;  // guarded by mutex_; in the order of the news
  std::size_t taken_ = 0;  // guarded by mutex_: so many of them
};

}  // namespace ccoll
