// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a thread waits during start-up: what ends the wait from outside, and when to log that it
/// still waits. It belongs to the thread, because stores have an interface that callers implement.

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>

#include "core/result.hpp"

namespace ccoll {

struct Patience {
  std::stop_token stop = {};
  std::chrono::milliseconds warn_after{0};  ///< 0: never

  /// When the first warning is due; later ones come at intervals of `warn_after`. People look at a
  /// start that stands still long before a call would be worth a warning.
  std::chrono::milliseconds first_warning() const {
    return std::min<std::chrono::milliseconds>(warn_after, std::chrono::seconds(10));
  }

  static const Patience& of_thread();
  /// Fails with aborted once a stop has been requested.
  Status is_left() const;
};

/// The failure that is_left() returns.
Failure ended_from_outside();

/// While it lives, its thread has that patience; then the previous one returns.
class HavingPatience {
 public:
  explicit HavingPatience(Patience patience);
  ~HavingPatience();
  HavingPatience(const HavingPatience&) = delete;
  HavingPatience& operator=(const HavingPatience&) = delete;

 private:
  Patience before_;
};

}  // namespace ccoll
