// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a rank waits while nothing moves: it spins while it has a core of its own, yields while
/// oversubscribed, and says when it is time to sleep.

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace ccoll {

class SpinPolicy {
 public:
  explicit SpinPolicy(bool oversubscribed) : oversubscribed_(oversubscribed) {}
  /// For a call that does not count as waiting yet. `cheap`: a poll only reads memory.
  static SpinPolicy short_one(bool oversubscribed, bool cheap) {
    SpinPolicy patience(oversubscribed && cheap);
    patience.spins_ = oversubscribed ? 0 : 500;
    return patience;
  }
  /// For a call that is handed back if it is not over in some microseconds. Its caller may hold a
  /// lock.
  static SpinPolicy brief() {
    SpinPolicy patience(false);
    patience.spins_ = 100;
    return patience;
  }

  /// Something moved.
  void reset() { polls_ = 0; }

  /// After a poll in which nothing moved: true to poll again, false to sleep.
  bool keep_polling() {
    if (polls_++ == 0 && oversubscribed_) since_ = std::chrono::steady_clock::now();
    if (!oversubscribed_) return polls_ < spins_;
    // The awaited peer probably needs this core.
    sched_yield();
    return std::chrono::steady_clock::now() - since_ < yield_time_;
  }

 private:
  const bool oversubscribed_;
  std::uint32_t spins_ = 2000;
  std::chrono::microseconds yield_time_{100};
  std::uint32_t polls_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace ccoll
