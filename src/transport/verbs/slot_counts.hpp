// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How many slices have gone through each direction's slots, and which slots are free again. Counts
/// are cumulative; a message carries their lowest kCountBits bits. Each side checks that what the
/// other says is possible.

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/link.hpp"

namespace ccoll::verbs {

/// Slices in flight. The receiver returns kCreditBatch credits when it is idle, more of them at
/// once, so that the sender can always use kLinkSlots.
inline constexpr std::uint32_t kSlots = 8;
inline constexpr std::uint32_t kCreditBatch = kSlots / 2;
static_assert(kSlots - kCreditBatch >= kLinkSlots);

inline constexpr std::uint32_t kCountBits = 15;
inline constexpr std::uint32_t kCountMask = (1U << kCountBits) - 1;
/// A count as a message carries it.
constexpr std::uint32_t counted(std::uint64_t all) {
  return static_cast<std::uint32_t>(all) & kCountMask;
}

/// The sender's slots: the receiver has popped `credited` of the slices that were pushed.
class SentSlots {
 public:
  bool has_room() const { return pushed_ - credited_ < kSlots; }
  bool are_free() const { return pushed_ == credited_; }
  std::uint64_t pushed() const { return pushed_; }
  std::uint64_t credited() const { return credited_; }
  /// Payload bytes of the pushed slices.
  std::uint64_t bytes() const { return bytes_; }
  void push(std::size_t bytes) {
    pushed_++;
    bytes_ += bytes;
  }
  /// The receiver says that it has popped so many; false if they were not pushed.
  bool take_credits(std::uint32_t count) {
    const auto more = (count - counted(credited_)) & kCountMask;
    if (more > pushed_ - credited_) return false;
    credited_ += more;
    return true;
  }

 private:
  std::uint64_t pushed_ = 0;
  std::uint64_t credited_ = 0;
  std::uint64_t bytes_ = 0;
};

/// The receiver's slots: of the slices that arrived, some are popped, and the sender has been told
/// of some of these.
class ReceivedSlots {
 public:
  bool is_any_there() const { return arrived_ != popped_; }
  std::uint64_t arrived() const { return arrived_; }
  std::uint64_t popped() const { return popped_; }
  /// Payload bytes of the popped slices.
  std::uint64_t popped_bytes() const { return popped_bytes_; }
  /// Slice number `count` has arrived with so many bytes; false if it is not the next one, or had
  /// no slot.
  bool arrive(std::uint32_t count, std::uint32_t bytes) {
    if (count != counted(arrived_ + 1) || arrived_ - told_ >= kSlots) return false;
    arrived_bytes_[arrived_++ % kSlots] = bytes;
    return true;
  }
  /// The bytes with which the front slice arrived.
  std::uint32_t front_bytes() const { return arrived_bytes_[popped_ % kSlots]; }
  void pop(std::size_t bytes) {
    popped_++;
    popped_bytes_ += bytes;
  }
  /// Popped slices of which the sender has not been told.
  std::uint64_t untold() const { return popped_ - told_; }
  /// The count to tell the sender now.
  std::uint64_t tell() { return told_ = popped_; }

 private:
  std::uint64_t arrived_ = 0;
  std::uint64_t popped_ = 0;
  std::uint64_t told_ = 0;
  std::uint64_t popped_bytes_ = 0;
  std::array<std::uint32_t, kSlots> arrived_bytes_{};
};

}  // namespace ccoll::verbs
