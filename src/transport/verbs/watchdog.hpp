// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether a device does what it is there for: it confirms a request, or gives it up once its
/// retries are over. One that does neither (soft-RoCE may lose the timer of its retries when its
/// network interface goes down amid them) would be waited for as long as its call may take.

#include <chrono>
#include <cstdint>
#include <optional>

#include "transport/verbs/device/settings.hpp"

namespace ccoll::verbs {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Advice : std::uint8_t { wait, ask, give_up };

  /// Of so much silence nothing is thought.
  static constexpr std::chrono::seconds kQuiet{1};

  /// For an answer to what was asked. Between two tries a device may take four times what it was
  /// told (InfiniBand specification, volume 1, 9.7.6.1.3), and rests of its own.
  static Clock::duration patience(const Settings& settings) {
    const std::chrono::nanoseconds between_tries(4096ULL << settings.timeout);
    return 4 * (settings.retries + 1) * between_tries + std::chrono::seconds(5);
  }

  /// Before each sleep. Requests complete in order, and most of them untold: whether the last ones
  /// have shows only where one that is told of follows them, which is to be posted on `ask`.
  Advice look(std::uint64_t posted, std::uint64_t completed, const Settings& settings) {
    // Without a look at the clock.
    if (posted == completed && !since_) return Advice::wait;
    return look(posted, completed, Clock::now(), patience(settings));
  }
  Advice look(std::uint64_t posted, std::uint64_t completed, Clock::time_point now,
              Clock::duration patience) {
    if (posted == completed) {
      since_.reset();
      return Advice::wait;
    }
    if (!since_ || completed != completed_ || (posted != posted_ && !has_asked_)) {
      since_ = now;
      posted_ = posted;
      completed_ = completed;
      has_asked_ = false;
      return Advice::wait;
    }
    if (now - *since_ < (has_asked_ ? patience : kQuiet)) return Advice::wait;
    if (has_asked_) return Advice::give_up;
    since_ = now;
    has_asked_ = true;
    return Advice::ask;
  }

 private:
  std::optional<Clock::time_point> since_;  ///< nothing has happened; then: it was asked
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  bool has_asked_ = false;
};

}  // namespace ccoll::verbs
