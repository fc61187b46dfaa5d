// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The writing end of a ring: which lines and slots are free, and what is lent. It takes the
/// reader's word only for how many slices are popped, and for one refused slice at a time.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "transport/shm/ring.hpp"

namespace ccoll::shm {

/// Fetches a cache line from another core, so that the next store to it need not wait.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  // Unless told that the processor knows this instruction, compilers use one that leaves the line
  // shared. Processors without it do nothing.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

template <typename Ring>
class BasicRingWriter {
 public:
  /// From this slice on, short slices lie one behind another in their slots, so that all of the
  /// slots' memory takes turns. Until then few pages are touched.
  static constexpr std::uint64_t kFirstBehind = 1024;

  /// Uses the slots [0, slots). Stays at most `lines` slices ahead of its reader, more than
  /// Ring::kUntold. `multicast_readers`: by shared slot, the number of its readers.
  explicit BasicRingWriter(Ring* ring, std::uint32_t slots, std::uint32_t lines = Ring::kLines,
                           std::uint32_t* multicast_readers = nullptr,
                           std::uint64_t first_behind = kFirstBehind)
      : ring_(ring),
        lines_(lines),
        // The reader of a thrifty ring gives a slot's memory away when it has read a slice in it.
        first_behind_(ring->is_thrifty != 0 ? UINT64_MAX : first_behind),
        slots_(slots),
        next_slots_(slots),
        multicast_readers_(multicast_readers) {}

  bool has_room() {
    if (has_line_and_slot()) return true;
    look();
    return has_line_and_slot();
  }
  /// Slices so far.
  std::uint64_t pushed() const { return pushed_; }
  /// Whether only a slot is lacking for has_room().
  bool lacks_slot() const { return has_line() && !has_slot(); }
  /// Keeps at most `slots` slots unread from now on. Uses the slots [0, slots) once it comes to the
  /// end of its present ones.
  void use(std::uint32_t slots) { next_slots_ = slots; }
  /// Memory for a slice of `bytes`: the same until push(), unless more is asked for meanwhile.
  std::byte* room(std::size_t bytes) {
    if (Ring::Line::holds(bytes)) return line().data.data();
    if (bytes > chosen_bytes_) choose(bytes);
    return ring_->slot(slot_) + offset_;
  }
  void push(const SliceHeader& header) {
    auto& line = this->line();
    line.set(header);
    const bool takes_slot = !Ring::Line::holds(header.bytes);
    taken_[pushed_ % Ring::kLines] = takes_slot ? kFirstOwnSlot + slot_ : kNothing;
    if (takes_slot) {
      line.place = {slot_, 0, offset_};
      if (slices_[slot_]++ == 0) taken_slots_++;
      if (goes_behind(header.bytes))
        offset_ += (header.bytes + kPairOfLines - 1) / kPairOfLines * kPairOfLines;
      else
        next_slot();
      chosen_bytes_ = 0;
    }
    line.stamp.store(Ring::stamp_of(++pushed_));
    prefetch_next(header.bytes);
  }
  /// Pushes a slice longer than a line in a shared slot, at `offset` of their memory.
  void push_multicast(const SliceHeader& header, std::uint32_t slot, std::uint64_t offset) {
    if (header.bytes >= kWorthALook) look();
    auto& line = this->line();
    line.set(header);
    line.place = {Ring::kMulticast, 0, offset};
    taken_[pushed_ % Ring::kLines] = slot;
    multicast_readers_[slot]++;
    line.stamp.store(Ring::stamp_of(++pushed_));
  }
  /// Pushes a slice longer than a line in memory that the reader has mapped.
  void lend(const SliceHeader& header, std::uint32_t memory, std::uint64_t offset) {
    lend(header, {Ring::kLent, memory, offset});
  }
  /// The same for other memory of this process, if the reader fetches from it.
  bool is_fetched() const { return ring_->fetches.load(std::memory_order_relaxed) != 0; }
  bool prefers_loans(LoanClass loans) const {
    return (ring_->prefers_loans.load(std::memory_order_relaxed) >> loans % kLoanClasses & 1) != 0;
  }
  void lend_unmapped(const SliceHeader& header, const std::byte* data) {
    const auto line = pushed_ % Ring::kLines;
    lend(header, {Ring::kUnmapped, 0, reinterpret_cast<std::uintptr_t>(data)});
    taken_[line] = kUnmapped;
    unmapped_[line] = {data, header.bytes};
  }
  /// Copies a slice that the reader has refused; true if there was one. Only a read shows that the
  /// kernel refuses it; docs/design/links.md has the cost. The lent memory must be unchanged. The
  /// slice is not taken from the line: the reader may be broken or malicious.
  bool remake() {
    const auto refused = ring_->refused.load();
    if (refused <= remade_) return false;
    remade_ = refused;
    const auto number = (refused - 1) % Ring::kLines;
    if (refused > pushed_ || refused <= popped_ || taken_[number] != kUnmapped) return false;
    std::ranges::copy(unmapped_[number], ring_->remade());
    auto& line = ring_->lines[number];
    line.place = {Ring::kRemade, 0, 0};
    line.stamp.store(
        static_cast<typename Ring::Stamp>(Ring::stamp_of(refused) | Ring::kStampedAgain));
    return true;
  }
  /// Whether all lent slices have been popped.
  bool drained() {
    if (lent_until_ > popped_) look();
    return lent_until_ <= popped_;
  }
  /// A reader that begins after this, or has not ended when is_read() is last asked, finds out.
  void revoke() { ring_->revoked.store(1); }
  bool is_read() const { return ring_->reading.load() != 0; }

 private:
  /// Such data take longer to copy than the reader's count takes to arrive.
  static constexpr std::size_t kWorthALook = 4 << 10;
  /// Larger slices take long in any case.
  static constexpr std::size_t kWorthPrefetching = 4 << 10;
  /// The other core has just read a slice of this size, if at all: fetching it back from that
  /// core's cache takes longer than going on with the next slot.
  static constexpr std::size_t kTakesTurns = 16 << 10;
  /// docs/design/links.md says what it brings that such slices lie one behind another.
  static constexpr std::size_t kMostBehind = 32 << 10;
  /// Processors fetch cache lines in such pairs.
  static constexpr std::size_t kPairOfLines = 128;

  /// Whether the next slice may lie behind such a one. With more slots than a link begins with, the
  /// memory that takes turns would be larger than caches.
  bool goes_behind(std::size_t bytes) const {
    return bytes <= kMostBehind && pushed_ >= first_behind_ && slots_ <= kLinkSlots;
  }
  /// Chooses the place of the next slice; there is a free slot.
  void choose(std::size_t bytes) {
    chosen_bytes_ = bytes;
    if (offset_ + bytes > kSlotBytes) next_slot();
    if (goes_behind(bytes) || bytes >= kTakesTurns) return;
    // If all slots have been read, start again with those in the caches.
    if (bytes >= kWorthALook) look();
    if (taken_slots_ == 0) begin_again();
  }
  void next_slot() {
    if (++slot_ == slots_) slots_ = next_slots_;
    if (slot_ >= slots_) slot_ = 0;
    offset_ = 0;
  }
  void lend(const SliceHeader& header, const typename Ring::Place& place) {
    auto& line = this->line();
    line.set(header);
    line.place = place;
    taken_[pushed_ % Ring::kLines] = kNothing;
    line.stamp.store(Ring::stamp_of(++pushed_));
    lent_until_ = pushed_;
  }
  /// Prefetches the memory of the next slice, assuming the length of this one. The reader had it
  /// last, so it arrives while this rank waits for an answer, not when it sends next.
  void prefetch_next(std::size_t bytes) {
    if (!has_line()) return;
    constexpr auto kHeadBytes = sizeof(typename Ring::Line) - Ring::Line::kDataBytes;
    const bool in_line = Ring::Line::holds(bytes);
    prefetch(&line(), in_line ? kHeadBytes + bytes : kHeadBytes);
    if (!in_line && bytes <= kWorthPrefetching && has_slot())
      prefetch(ring_->slot(slot_) + offset_, bytes);
  }
  static void prefetch(const void* memory, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(memory);
    for (std::size_t at = 0; at < bytes; at += 64) prefetch_to_write(begin + at);
  }
  typename Ring::Line& line() { return ring_->lines[pushed_ % Ring::kLines]; }
  bool has_line() const { return pushed_ - popped_ < lines_; }
  bool has_slot() const { return taken_slots_ < std::min(slots_, next_slots_); }
  bool has_line_and_slot() const { return has_line() && has_slot(); }
  void begin_again() {
    slot_ = 0;
    offset_ = 0;
    slots_ = next_slots_;
  }
  void look() {
    for (const auto popped = std::min(ring_->popped.load(), pushed_); popped_ < popped; popped_++) {
      const auto taken = taken_[popped_ % Ring::kLines];
      if (taken < kFirstOwnSlot)
        multicast_readers_[taken]--;
      else if (taken < kUnmapped && --slices_[taken - kFirstOwnSlot] == 0)
        taken_slots_--;
    }
  }

  Ring* const ring_;
  const std::uint32_t lines_;
  const std::uint64_t first_behind_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;      ///< as last read: it may be more
  std::uint64_t lent_until_ = 0;  ///< slices before this count may be lent
  std::uint32_t slots_;
  std::uint32_t next_slots_;  ///< from the next wrap-around on
  std::uint32_t taken_slots_ = 0;
  std::array<std::uint32_t, Ring::kLines> slices_{};  ///< by slot, those not yet read
  std::uint32_t slot_ = 0;    ///< of the next slice; they come back in the order of taking
  std::uint64_t offset_ = 0;  ///< of the next slice in its slot
  std::size_t chosen_bytes_ = 0;  ///< for which room() has returned this place
  static constexpr std::uint32_t kNothing = UINT32_MAX, kUnmapped = UINT32_MAX - 1,
                                 kFirstOwnSlot = kUnmapped - Ring::kLines;
  std::array<std::uint32_t, Ring::kLines> taken_{};  ///< by line: one of these, or a shared slot
  std::array<std::span<const std::byte>, Ring::kLines> unmapped_{};  ///< by line, for kUnmapped
  std::uint64_t remade_ = 0;  ///< count of the last refused slice
  std::uint32_t* const multicast_readers_;
};

using RingWriter = BasicRingWriter<Ring>;

}  // namespace ccoll::shm
