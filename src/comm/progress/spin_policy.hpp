// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a rank waits while nothing moves: it spins while it has a core of its own, yields while
/// oversubscribed, and says when it is time to sleep.

#include <sched.h>

#include <chrono>
#include <cstdint>

#include "core/deadline.hpp"

namespace ccoll {

class SpinPolicy {
 public:
  explicit SpinPolicy(bool oversubscribed, Now now = &Clock::now)
      : oversubscribed_(oversubscribed), now_(now) {}
  /// For a call that does not count as waiting yet. `cheap`: a poll only reads memory.
  static SpinPolicy short_one(bool oversubscribed, bool cheap, Now now = &Clock::now) {
    SpinPolicy patience(oversubscribed && cheap, now);
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
    if (polls_++ == 0 && oversubscribed_) since_ = now_();
    if (!oversubscribed_) return polls_ < spins_;
    // The awaited peer probably needs this core.
    sched_yield();
    return now_() - since_ < yield_time_;
  }

 private:
  const bool oversubscribed_;
  const Now now_;
  std::uint32_t spins_ = 2000;
  std::chrono::microseconds yield_time_{100};
  std::uint32_t polls_ = 0;
  Clock::time_point since_;
};

}  // namespace ccoll
