// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Detects a device that neither confirms a request nor gives it up once its retries are over.
/// Without it, a call would wait until its own limit. soft-RoCE does so: it may lose its retry
/// timer when its network interface goes down between retries.

#include <chrono>
#include <cstdint>
#include <optional>

#include "transport/verbs/device/settings.hpp"

namespace ccoll::verbs {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Advice : std::uint8_t { wait, ask, give_up };

  /// A silence up to this long is no concern.
  static constexpr std::chrono::seconds kQuiet{1};

  /// Time limit for an answer to `ask`. Between two tries a device may take four times its setting
  /// (InfiniBand specification, volume 1, 9.7.6.1.3), plus pauses of its own.
  static Clock::duration patience(const Settings& settings) {
    const std::chrono::nanoseconds between_tries(4096ULL << settings.timeout);
    return 4 * (settings.retries + 1) * between_tries + std::chrono::seconds(5);
  }

  /// Call before each sleep. Requests complete in order, mostly unsignalled. Whether the last ones
  /// have completed shows only if a signalled request follows; post one on `ask`.
  Advice look(std::uint64_t posted, std::uint64_t completed, const Settings& settings) {
    // Skip reading the clock.
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
  std::optional<Clock::time_point> since_;  ///< start of the silence; once asked: when that was
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  bool has_asked_ = false;
};

}  // namespace ccoll::verbs
