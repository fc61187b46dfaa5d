// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a thread that starts up waits: what ends that from outside, and when it is to say that it
/// still waits. Of the thread, because stores are asked through an interface that callers
/// implement.

#include <chrono>
#include <stop_token>
#include <utility>

#include "core/result.hpp"

namespace ccoll {

struct Patience {
  std::stop_token stop = {};
  std::chrono::milliseconds warn_after{0};  ///< 0: never

  static const Patience& of_thread();
  /// Fails with aborted once a stop has been requested.
  Status is_left() const;
};

/// The failure of is_left().
Failure ended_from_outside();

/// While it lives its thread has that patience; what it had before comes back.
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
