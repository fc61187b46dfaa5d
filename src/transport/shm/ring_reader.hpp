// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The reading end of a ring: what has come, where it lies, and when the writer hears that it is
/// popped. The writer may be broken or malicious: each line decides by one copy of it.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/ring.hpp"

namespace ccoll::shm {

template <typename Ring>
class BasicRingReader {
 public:
  explicit BasicRingReader(Ring* ring) : ring_(ring) {}

  /// Whether the front slice is there, or the one `behind` positions after it.
  bool there(std::uint32_t behind = 0) const {
    return line(behind).stamp.load() % Ring::kStampedAgain == Ring::stamp_of(popped_ + behind + 1);
  }
  /// Prefetches the further cache lines of a slice that is not there() yet, assuming the length of
  /// the last one: so its lines arrive together.
  void prefetch() const {
    const auto* const first = reinterpret_cast<const std::byte*>(&line());
    for (std::size_t i = 1; i <= lines_ahead_; i++) __builtin_prefetch(first + i * 64);
  }
  /// Copies from the line. Decide everything by one copy: the writer may be broken or malicious and
  /// change the line at any time.
  SliceHeader header(std::uint32_t behind = 0) const {
    const auto copy = line(behind).header();
    no_second_look();
    return copy;
  }
  /// For a slice that does not fit its line.
  typename Ring::Place place(std::uint32_t behind = 0) const {
    const auto copy = line(behind).place;
    no_second_look();
    return copy;
  }
  /// The data, if they fit their line.
  const std::byte* in_line() const { return line().data.data(); }
  /// The data, if they lie in a slot of this ring, whatever the writer says of their place.
  const std::byte* in_slot(const typename Ring::Place& place) const {
    static_assert(kMostFetchedBytes >= kSlotBytes, "the ring's memory ends behind such a slice");
    return ring_->slot(place.slot % Ring::kLines) + place.offset % kSlotBytes;
  }
  void fetch() { ring_->fetches.store(1, std::memory_order_relaxed); }
  void prefer_loans(LoanClass loans, bool prefers) {
    const std::uint32_t bit = 1U << loans % kLoanClasses;
    const auto all = ring_->prefers_loans.load(std::memory_order_relaxed);
    const auto wanted = prefers ? all | bit : all & ~bit;
    // A store takes the line from the writer.
    if (wanted != all) ring_->prefers_loans.store(wanted, std::memory_order_relaxed);
  }
  /// The front slice lies where it cannot be read, and nothing more is to be lent from such places.
  /// Its line is not to be looked at until it is_remade().
  void refuse() {
    ring_->fetches.store(0, std::memory_order_relaxed);
    ring_->refused.store(popped_ + 1);
  }
  bool is_remade() const {
    return line().stamp.load() == (Ring::kStampedAgain | Ring::stamp_of(popped_ + 1));
  }
  const std::byte* remade() const { return ring_->remade(); }
  /// Call before reading a lent slice: false if it was taken back.
  bool begin_loan() {
    ring_->reading.store(1);
    if (ring_->revoked.load() == 0) return true;
    ring_->reading.store(0);
    return false;
  }
  /// Call after reading it: false if it was taken back; then discard what was read.
  bool end_loan() {
    ring_->reading.store(0);
    return ring_->revoked.load() == 0;
  }
  /// Pops a slice of `bytes`. True if that is reported to the writer, for which it is news.
  bool pop(std::size_t bytes) {
    const bool only_line = Ring::Line::holds(bytes);
    lines_ahead_ = only_line ? (kHeadBytes + bytes - 1) / 64 : 0;
    if (++popped_ - told_ <= Ring::kUntold && only_line) return false;
    told_ = popped_;
    ring_->popped.store(told_);
    return true;
  }

 private:
  /// A compiler barrier: it must not read shared memory again instead of the copy.
  static void no_second_look() { std::atomic_signal_fence(std::memory_order_seq_cst); }
  typename Ring::Line& line(std::uint32_t behind = 0) const {
    return ring_->lines[(popped_ + behind) % Ring::kLines];
  }

  static constexpr auto kHeadBytes = sizeof(typename Ring::Line) - Ring::Line::kDataBytes;

  Ring* const ring_;
  std::uint64_t popped_ = 0;
  std::size_t lines_ahead_ = 0;  ///< of the last slice, beyond its first cache line
  std::uint64_t told_ = 0;       ///< slices of which the writer knows
};

using RingReader = BasicRingReader<Ring>;

}  // namespace ccoll::shm
