// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A block's barrier at which all of its threads learn alike whether one of them has been told to
/// stop.

#include <cstdint>

#include "kernels/device/layer.hpp"

namespace ccoll::device {

inline constexpr std::uint32_t kStopGateWords = 2;

/// Each thread has one. Of the two words that it shares with the block's other threads one is
/// written before a barrier and read behind it, and the other one next: so whoever comes to the
/// next barrier first cannot stop those who have yet to look what was said at this one.
template <Block B>
class StopGate {
 public:
  CCOLL_HOST_DEVICE StopGate(const B& block, std::uint64_t* words) : block_(block), words_(words) {}

  /// By one thread, before anything else.
  CCOLL_HOST_DEVICE void open() const {
    for (std::uint32_t i = 0; i < kStopGateWords; ++i) store_relaxed(&words_[i], 0);
  }
  /// The next barrier is the last.
  CCOLL_HOST_DEVICE void stop() const { store_relaxed(&words_[turn_], 1); }
  /// By all threads: the barrier. False where one has been told to stop.
  CCOLL_HOST_DEVICE bool pass() {
    block_.barrier();
    const bool goes_on = load_relaxed(&words_[turn_]) == 0;
    turn_ = 1 - turn_;
    return goes_on;
  }

 private:
  const B& block_;
  std::uint64_t* const words_;
  std::uint32_t turn_ = 0;
};

}  // namespace ccoll::device
