// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks where nobody listens, for an unknown reason. A rank listens for as long as it takes part,
/// so such a rank has gone. Others may know whether it left or died, and have a while to say so;
/// then it counts as having left. Service thread only.

#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "control/connections/tasks.hpp"
#include "core/deadline.hpp"

namespace ccoll::control {

class Absences {
 public:
  static constexpr std::chrono::milliseconds kPatience{1000};

  /// `over(rank)`: the time to say why that rank is absent is over.
  Absences(const Tasks& tasks, std::function<void(std::uint32_t)> over,
           std::chrono::milliseconds patience = kPatience)
      : tasks_(tasks), over_(std::move(over)), patience_(patience), timer_(tasks.context()) {}

  bool contains(std::uint32_t rank) const { return until_.contains(rank); }
  /// Nobody listens there.
  void add(std::uint32_t rank);
  /// Ends the time of those for which it is over at `now`. Its timer calls this.
  void end_due(Clock::time_point now);
  /// Nobody waits any longer.
  void stop() { timer_.cancel(); }

 private:
  void await_first();

  const Tasks& tasks_;
  const std::function<void(std::uint32_t)> over_;
  const std::chrono::milliseconds patience_;
  std::map<std::uint32_t, Clock::time_point> until_;
  asio::steady_timer timer_;
};

}  // namespace ccoll::control
