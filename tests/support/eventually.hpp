// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace ccoll::testing {

/// Whether `condition` becomes true within 20 s.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 4000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

}  // namespace ccoll::testing
