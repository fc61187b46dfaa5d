// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A block's barrier at which all of its threads learn alike whether one of them has to stop.

#include <cstdint>

#include "kernels/device/layer.hpp"

namespace ccoll::device {

inline constexpr std::uint32_t kStopGateWords = 2;

/// Each thread has one. The block's threads share two words: one is written before a barrier and
/// read behind it, and the next barrier uses the other. So a thread that is first at the next
/// barrier cannot stop those that have yet to read this one's word.
template <Block B>
class StopGate {
 public:
  CCOLL_HOST_DEVICE StopGate(const B& block, std::uint64_t* words) : block_(block), words_(words) {}

  /// One thread calls it, before anything else.
  CCOLL_HOST_DEVICE void open() const {
    for (std::uint32_t i = 0; i < kStopGateWords; ++i) store_relaxed(&words_[i], 0);
  }
  /// The next barrier is the last.
  CCOLL_HOST_DEVICE void stop() const { store_relaxed(&words_[turn_], 1); }
  /// All threads call it; it is the barrier. False if one of them has to stop.
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
