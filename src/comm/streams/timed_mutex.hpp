// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A std::timed_mutex for the thread sanitizer, which takes the standard one for unlocked.

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ccoll {

class TimedMutex {
 public:
  bool try_lock_until(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mu_);
    if (!changed_.wait_until(lock, end, [this] { return !is_held_; })) return false;
    is_held_ = true;
    return true;
  }
  void unlock() {
    {
      const std::lock_guard lock(mu_);
      is_held_ = false;
    }
    changed_.notify_one();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool is_held_ = false;  // guarded by mu_
};

}  // namespace ccoll
