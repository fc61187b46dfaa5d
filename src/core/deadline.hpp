// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The clock, and time limits that do not overflow. Any code that adds a time to a clock uses
/// deadline_after(), unless the time is a constant of ours. tests/core/deadline_test.cpp looks for
/// violations.

#include <chrono>

#include "ccoll/options.hpp"

namespace ccoll {

using Clock = std::chrono::steady_clock;
/// The source of the time for what decides by time. It gets one when it is made: tests have their
/// own, and need not wait. Threads and sockets wait by the Clock itself.
using Now = Clock::time_point (*)();

/// The moment `time` from now. More than a year, such as kNoLimit, becomes a year, and a negative
/// time becomes now.
template <typename Rep, typename Period>
Clock::time_point deadline_after(std::chrono::duration<Rep, Period> time,
                                 Clock::time_point now = Clock::now()) {
  constexpr std::chrono::hours kLongest{24 * 365};
  if (time >= kLongest) return now + kLongest;
  return time > time.zero() ? now + time : now;
}

}  // namespace ccoll
