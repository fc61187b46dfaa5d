// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How often a rank checks its connections, and how long a silence means a loss. Of each limit, its
/// own or a peer's, there are kLooks checks, one of which is slack. The caller has the timer.

#include <algorithm>
#include <chrono>
#include <optional>

namespace ccoll::control {

class Heartbeat {
 public:
  using Time = std::chrono::milliseconds;

  /// `limit` 0: this rank never counts a peer as lost for its silence.
  explicit Heartbeat(Time limit) : limit_(limit) {}

  Time limit() const { return limit_; }
  bool has_limit() const { return limit_ > Time(0); }
  bool is_loss(Time silence) const { return has_limit() && silence >= limit_ - limit_ / kLooks; }

  /// The time until the next check, given the shortest limit of all; nothing if no check is needed,
  /// or one is coming at the right time.
  std::optional<Time> begin_watch(Time shortest) {
    if (shortest == Time(0)) return std::nullopt;
    const Time period = std::max(shortest / kLooks, Time(1));
    if (watching_ && period == period_) return std::nullopt;
    watching_ = true;
    return period_ = period;
  }
  /// The check is due. Returns the period that is over.
  Time end_watch() {
    watching_ = false;
    return period_;
  }

 private:
  static constexpr int kLooks = 10;

  const Time limit_;
  Time period_{0};
  bool watching_ = false;
};

}  // namespace ccoll::control
