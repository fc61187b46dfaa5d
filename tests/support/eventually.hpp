// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The tests' way to wait until something holds.

#include <chrono>
#include <functional>
#include <thread>

#include "core/deadline.hpp"
#include "support/effort.hpp"

namespace ccoll::testing {

/// Whether `condition` becomes true within `limit`.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = kPatience) {
  const auto end = deadline_after(limit);
  while (Clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

}  // namespace ccoll::testing
