// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Time limits that do not overflow: whoever adds a time to a clock that is not a constant of our
/// own does it here. tests/core/deadline_test.cpp looks for others.

#include <chrono>

#include "ccoll/options.hpp"

namespace ccoll {

/// The moment `time` from now; a very long one, such as kNoLimit, is a year, and one below zero is
/// now.
template <typename Rep, typename Period>
std::chrono::steady_clock::time_point deadline_after(
    std::chrono::duration<Rep, Period> time,
    std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
  constexpr std::chrono::hours kLongest{24 * 365};
  if (time >= kLongest) return now + kLongest;
  return time > time.zero() ? now + time : now;
}

}  // namespace ccoll
