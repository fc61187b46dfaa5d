// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How far this rank is in its job: the start-up begins, has one outcome, and in the end the rank
/// leaves. A rank may leave at any moment, even before the start-up.

#include <algorithm>
#include <chrono>

#include "core/deadline.hpp"

namespace ccoll::control {

class Stage {
 public:
  using Time = Clock::time_point;

  /// The start-up begins; it tries until `deadline`.
  void begin(Time deadline) {
    deadline_ = deadline;
    start_up_ = StartUp::begun;
  }
  /// The start-up is over; later calls must not change its outcome.
  void decide(bool success) { start_up_ = success ? StartUp::succeeded : StartUp::failed; }
  void leave() { leaving_ = true; }

  /// Whether the start-up may try on: it has no outcome, and time is left.
  bool may_try(Time now) const { return !is_decided() && now < deadline_; }
  /// The time left for an attempt, but at least one millisecond: it needs some.
  std::chrono::milliseconds left(Time now) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - now);
    return std::max(left, std::chrono::milliseconds(1));
  }
  /// Whether the start-up is over for every rank: it has an outcome here, and no rank tries on.
  bool is_long_over(Time now) const { return is_decided() && now > deadline_; }
  bool is_starting() const { return start_up_ == StartUp::begun; }
  bool is_decided() const { return start_up_ > StartUp::begun; }
  bool has_joined() const { return start_up_ == StartUp::succeeded; }
  bool is_leaving() const { return leaving_; }

 private:
  enum class StartUp { none, begun, succeeded, failed };

  Time deadline_{};
  StartUp start_up_ = StartUp::none;
  bool leaving_ = false;
};

}  // namespace ccoll::control
