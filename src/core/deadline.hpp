// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Time limits that do not overflow. Any code that adds a time to a clock uses this, unless the
/// time is a constant of ours. tests/core/deadline_test.cpp looks for violations.

#include <chrono>

#include "ccoll/options.hpp"

namespace ccoll {

/// The moment `time` from now. More than a year, such as kNoLimit, becomes a year, and a negative
/// time becomes now.
template <typename Rep, typename Period>
std::chrono::steady_clock::time_point deadline_after(
    std::chrono::duration<Rep, Period> time,
    std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
  constexpr std::chrono::hours kLongest{24 * 365};
  if (time >= kLongest) return now + kLongest;
  return time > time.zero() ? now + time : now;
}

}  // namespace ccoll
