// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How often the owner looks at every operation under way.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ccoll {

/// Looks take a small part of the time, however many operations there are: a few are looked at
/// whenever it may help, thousands only now and then.
class Sweep {
 public:
  using Clock = std::chrono::steady_clock;

  /// Whether to look now at so many operations.
  bool begins(Clock::time_point now, std::size_t count) {
    if (count > kFew && now < next_) return false;
    next_ =
        now + std::min<Clock::duration>(kPause * static_cast<std::int64_t>(count), kLongestPause);
    return true;
  }
  /// When the next look may begin, if none may begin yet.
  Clock::time_point next() const { return next_; }

 private:
  static constexpr std::size_t kFew = 64;
  /// Pause per operation. A look at one takes some 0.02 us, or 0.1 us from memory.
  static constexpr std::chrono::microseconds kPause{2};
  /// A time limit is noticed this much later at most.
  static constexpr std::chrono::milliseconds kLongestPause{100};

  Clock::time_point next_;
};

}  // namespace ccoll
