// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Time limits that do not overflow.

#include <algorithm>
#include <chrono>

namespace ccoll {

/// The moment `timeout` from now; a very long one, such as milliseconds::max(), is a year.
inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::milliseconds timeout,
    std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return now + std::min(timeout, kLongest);
}

}  // namespace ccoll
