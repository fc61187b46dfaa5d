// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Attempts that fail for want of descriptors or memory. That may pass, so they are repeated, but
/// not until the time limit of all: the reason would come too late for the other ranks.

#include <algorithm>
#include <chrono>

#include "core/result.hpp"

namespace ccoll::net {

/// How long a process may lack descriptors before it gives up what needs them.
inline constexpr std::chrono::milliseconds kLackLimit{2000};

/// Watches one series of attempts. Not thread-safe.
class Lack {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// An attempt has failed. Returns whether it lacks something, and at the time `next` of the next
  /// attempt all attempts will have done so for kLackLimit.
  bool lasts(const Failure& failure, Time next = std::chrono::steady_clock::now()) {
    const bool lacks = failure.kind == ErrorKind::exhausted;
    since_ = lacks ? std::min(since_, std::chrono::steady_clock::now()) : Time::max();
    return lacks && next - since_ >= kLackLimit;
  }

 private:
  Time since_ = Time::max();
};

}  // namespace ccoll::net
