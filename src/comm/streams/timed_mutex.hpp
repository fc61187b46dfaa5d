// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A std::timed_mutex for the thread sanitizer, which takes the standard one for unlocked.

#include <chrono>
#include <condition_variable>

#include "system/locks.hpp"

namespace ccoll {

class TimedMutex {
 public:
  bool try_lock_until(std::chrono::steady_clock::time_point end) {
    auto is_held = is_held_.lock();
    if (!is_held.wait_until(changed_, end, [](bool held) { return !held; })) return false;
    return *is_held = true;
  }
  void unlock() {
    *is_held_.lock() = false;
    changed_.notify_one();
  }

 private:
  Guarded<bool> is_held_{false};
  std::condition_variable changed_;
};

}  // namespace ccoll
