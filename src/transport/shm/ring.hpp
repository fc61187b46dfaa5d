// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory between the two ends of a shared-memory link, and the protocol on it: a bounded ring
/// of slices with one writer and one reader, in processes of their own or threads of one.
///
/// A slice is announced by a line: its header, its data where they fit, and a stamp that publishes
/// both; one cache line, half of it for data, and as many more as those take. Larger data lie in a
/// slot whose number the line says; or in one that several rings share (multicast_slots.hpp), for
/// all their readers; or are lent: then they lie where the line says, in memory of the writer's
/// process that the reader's has mapped. The reader hands the line, the slot and the loan back by
/// counting up `popped`; of lines alone for several at once, because the writer has more of them
/// than it needs, and a store that is news costs as much as all the rest. What is lent may also lie
/// in memory that the reader has not mapped and yet reads from (single_copy.hpp). Where the kernel
/// refuses that, be it later, the reader says so, slice by slice, and the writer copies it and
/// stamps its line once more.
///
///   writer                                   reader
///   line i % kLines ← header, small data
///   slot            ← large data
///   line.stamp      ← i + 1              ──► line.stamp == i + 1: reads line and slot
///   popped > i                           ◄── popped ← i + 1
///
/// A writer whose call has failed takes back whatever it has lent, for good, without waiting for
/// ever for a reader that may have stopped in the middle:
///
///   revoked ← 1                              reading ← 1; revoked == 0: reads what is lent
///   reading == 0, or patience is over    ◄── reading ← 0; revoked == 0: what it read is good
///
/// All but one are seq_cst: stamp, popped and refused because they are also the news, and the looks
/// for news, of the sleeping protocol (transport/sleep_word.hpp); release and acquire would do
/// otherwise. revoked and reading because each end stores one and then looks at the other. fetches
/// and prefers_loans are relaxed: they publish nothing, and a writer that sees them late makes a
/// copy more. There are no fences.
///
/// Templates over the atomic type, so that tests/transport/shm/ring_explorer_test.cpp can go
/// through all that a C++ machine may do, which this one never shows.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "transport/link.hpp"

namespace ccoll::shm {

/// Fetches a cache line that another core has, so that the next store to it need not wait.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  // Compilers take another instruction, one that leaves the line to both, unless they are told that
  // the processor knows this one; those that do not know it do nothing.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Most bytes of a slice.
inline constexpr std::size_t kSlotBytes = 128 << 10;
static_assert(kSlotBytes >= kCommonSliceBytes);

/// Most bytes of one that is lent from memory which the reader has not mapped.
inline constexpr std::size_t kMostFetchedBytes = 1 << 20;

/// `kMostUntold`: lines that may have been read without the writer having been told. `StampBits`: a
/// line's stamp is the last bits but one of its slice's count, in which the slice before it in that
/// line differs.
template <template <typename> typename Atomic, std::size_t kCount,
          std::size_t kMostUntold = kCount / 8, typename StampBits = std::uint32_t>
struct BasicRing {
  static constexpr std::size_t kLines = kCount;
  static constexpr std::size_t kUntold = kMostUntold;

  /// Where data that do not fit their line lie.
  struct Place {
    std::uint32_t slot;    ///< or kLent, kSpread, kUnmapped, kRemade
    std::uint32_t memory;  ///< of what is lent: its number in the writer's process
    std::uint64_t offset;  ///< in that memory, or in that of the shared slots; or an address there
  };
  static constexpr std::uint32_t kLent = UINT32_MAX, kMulticast = UINT32_MAX - 1,
                                 kUnmapped = UINT32_MAX - 2, kRemade = UINT32_MAX - 3;
  using Stamp = StampBits;
  /// Of the stamp of a line whose slice was refused where it lay.
  static constexpr Stamp kStampedAgain = std::numeric_limits<Stamp>::max() / 2 + 1;
  static_assert(kCount < kStampedAgain);
  static constexpr Stamp stamp_of(std::uint64_t count) {
    return static_cast<Stamp>(count % kStampedAgain);
  }

  /// Cache lines, of which only those are touched that its data take.
  struct alignas(64) Line {
    static constexpr std::size_t kDataBytes = 224;
    static constexpr bool holds(std::size_t bytes) { return bytes <= kDataBytes; }

    Atomic<Stamp> stamp;  // written by the writer: publishes the line and its slot
    std::uint32_t bytes;
    std::uint64_t sequence;
    Signature signature;
    union {
      std::array<std::byte, kDataBytes> data;  // of a slice of at most so many bytes
      Place place;                             // of a larger one
    };

    /// Field by field, as it was made just now: what was stored in pieces a processor is slow to
    /// load as a whole.
    void set(const SliceHeader& header) {
      bytes = header.bytes;
      sequence = header.sequence;
      signature = header.signature;
    }
    SliceHeader header() const { return {sequence, signature, bytes, 0}; }
  };

  std::array<Line, kLines> lines;
  alignas(64) Atomic<std::uint64_t> popped;  // written by the reader, polled by the writer
  // Written by the reader, at which the writer does not look while all goes well: what is lent.
  alignas(64) Atomic<std::uint32_t> reading;
  alignas(64) Atomic<std::uint32_t> revoked;  // written by the writer: nothing is lent any more
  Atomic<std::uint32_t> fetches;  // written by the reader: it reads also what it has not mapped
  Atomic<std::uint32_t> prefers_loans;  // written by the reader: a bit for each LoanClass
  Atomic<std::uint64_t> refused;  // written by the reader: the stamp of a slice it cannot read so
  Atomic<std::uint32_t> writer_gone;
  Atomic<std::uint32_t> reader_gone;
  /// Set before the ring is handed over: of a slot that was read, the reader gives back to the
  /// system what is beyond its first page.
  std::uint32_t is_thrifty = 0;

  /// Pages of their own, used only where slices are large: what is never touched costs nothing.
  std::byte* slot(std::uint32_t number) {
    return reinterpret_cast<std::byte*>(this) + kFirstSlot + number * kSlotBytes;
  }
  /// Where the slice lies that was refused last: behind the slots.
  std::byte* remade() { return slot(kLines); }
  static constexpr std::size_t kFirstSlot = 12 << 10;
  static constexpr std::size_t kBytes = kFirstSlot + kLines * kSlotBytes + kMostFetchedBytes;

  /// A slot's part that a reader of a thrifty ring does not give back.
  static constexpr std::size_t kKeptBytes = 4 << 10;

  /// In memory that is all zero.
  static BasicRing* make(std::byte* memory) { return new (memory) BasicRing(); }
  static BasicRing* at(std::byte* memory) {
    return std::launder(reinterpret_cast<BasicRing*>(memory));
  }
};

using Ring = BasicRing<std::atomic, 32>;
static_assert(sizeof(Ring::Line) == 256);
static_assert(sizeof(Ring::Line) - Ring::Line::kDataBytes == 32);  // half of its first cache line
static_assert(sizeof(Ring) <= Ring::kFirstSlot);
static_assert(Ring::kLines >= kLinkSlots);

template <typename Ring>
class BasicRingWriter {
 public:
  /// Uses the slots [0, slots), and is at most `lines` slices ahead of its reader:
  /// more than Ring::kUntold.
  /// `multicast_readers`: by shared slot, how many are to read it.
  explicit BasicRingWriter(Ring* ring, std::uint32_t slots, std::uint32_t lines = Ring::kLines,
                           std::uint32_t* multicast_readers = nullptr)
      : ring_(ring),
        lines_(lines),
        slots_(slots),
        next_slots_(slots),
        multicast_readers_(multicast_readers) {}

  bool has_room() {
    if (has_line_and_slot()) return true;
    look();
    return has_line_and_slot();
  }
  /// Whether there is no room for want of a slot.
  bool lacks_slot() const { return has_line() && !has_slot(); }
  /// Has at most so many slots unread from now on, and uses the slots [0, slots) from the next time
  /// on that it comes to the end of those it has.
  void use(std::uint32_t slots) { next_slots_ = slots; }
  /// Where a slice of `bytes` goes: the same until push().
  std::byte* room(std::size_t bytes) {
    if (Ring::Line::holds(bytes)) return line().data.data();
    if (!std::exchange(chosen_, true) && bytes < kTakesTurns) {
      // Where all have been read, one begins again with the memory that the caches know.
      if (bytes >= kWorthALook) look();
      if (taken_slots_ == 0) begin_again();
    }
    return ring_->slot(next_slot_);
  }
  void push(const SliceHeader& header) {
    auto& line = this->line();
    line.set(header);
    const bool takes_slot = !Ring::Line::holds(header.bytes);
    taken_[pushed_ % Ring::kLines] = takes_slot ? kOwnSlot : kNothing;
    if (takes_slot) {
      line.place = {next_slot_, 0, 0};
      if (++next_slot_ == slots_) slots_ = next_slots_;
      if (next_slot_ >= slots_) next_slot_ = 0;
      taken_slots_++;
      chosen_ = false;
    }
    line.stamp.store(Ring::stamp_of(++pushed_));
    prefetch_next(header.bytes);
  }
  /// A slice of more than a line's bytes that lies in a shared slot, at `offset` of their memory.
  void push_multicast(const SliceHeader& header, std::uint32_t slot, std::uint64_t offset) {
    if (header.bytes >= kWorthALook) look();
    auto& line = this->line();
    line.set(header);
    line.place = {Ring::kMulticast, 0, offset};
    taken_[pushed_ % Ring::kLines] = slot;
    multicast_readers_[slot]++;
    line.stamp.store(Ring::stamp_of(++pushed_));
  }
  /// A slice of more than a line's bytes that lies in memory which the reader has mapped.
  void lend(const SliceHeader& header, std::uint32_t memory, std::uint64_t offset) {
    lend(header, {Ring::kLent, memory, offset});
  }
  /// The same in other memory of this process, of a reader that fetches from there.
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
  /// Copies the slice that the reader has refused where it lies, if it has: true, and it can be
  /// read. Its memory must still be as it was lent. What it was is not taken from the line: the
  /// reader may be a broken or an evil process.
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
  /// Whether all that was lent has been popped.
  bool drained() {
    if (lent_until_ > popped_) look();
    return lent_until_ <= popped_;
  }
  /// Whoever begins to read what was lent from now on, or has not ended when is_read() was last
  /// asked, finds out.
  void revoke() { ring_->revoked.store(1); }
  bool is_read() const { return ring_->reading.load() != 0; }

 private:
  /// Data that take longer to copy than the reader's count does to come.
  static constexpr std::size_t kWorthALook = 4 << 10;
  /// More takes its time anyway.
  static constexpr std::size_t kWorthPrefetching = 4 << 10;
  /// So much was read by the other core just now, if it was read at all: to fetch it back from that
  /// one's cache takes longer than to go on with the next slot.
  static constexpr std::size_t kTakesTurns = 16 << 10;

  void lend(const SliceHeader& header, const typename Ring::Place& place) {
    auto& line = this->line();
    line.set(header);
    line.place = place;
    taken_[pushed_ % Ring::kLines] = kNothing;
    line.stamp.store(Ring::stamp_of(++pushed_));
    lent_until_ = pushed_;
  }
  /// The memory of the next slice, if that is as long as this one. The reader had it last: so it
  /// comes while this rank waits for an answer, not when it next sends.
  void prefetch_next(std::size_t bytes) {
    if (!has_line()) return;
    constexpr auto kHeadBytes = sizeof(typename Ring::Line) - Ring::Line::kDataBytes;
    const bool in_line = Ring::Line::holds(bytes);
    prefetch(&line(), in_line ? kHeadBytes + bytes : kHeadBytes);
    if (!in_line && bytes <= kWorthPrefetching && has_slot())
      prefetch(ring_->slot(next_slot_), bytes);
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
    next_slot_ = 0;
    slots_ = next_slots_;
  }
  void look() {
    for (const auto popped = std::min(ring_->popped.load(), pushed_); popped_ < popped; popped_++) {
      const auto taken = taken_[popped_ % Ring::kLines];
      if (taken == kOwnSlot)
        taken_slots_--;
      else if (taken < kUnmapped)
        multicast_readers_[taken]--;
    }
  }

  Ring* const ring_;
  const std::uint32_t lines_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;      ///< when last looked at: it may be more
  std::uint64_t lent_until_ = 0;  ///< slices before this count may be lent
  std::uint32_t slots_;
  std::uint32_t next_slots_;  ///< from the next time on that it comes to their end
  std::uint32_t taken_slots_ = 0;
  std::uint32_t next_slot_ = 0;  ///< they come back in the order in which they are taken
  bool chosen_ = false;          ///< whether room() has told of it
  static constexpr std::uint32_t kNothing = UINT32_MAX, kOwnSlot = UINT32_MAX - 1,
                                 kUnmapped = UINT32_MAX - 2;
  std::array<std::uint32_t, Ring::kLines> taken_{};  ///< by line: one of these, or a shared slot
  std::array<std::span<const std::byte>, Ring::kLines> unmapped_{};  ///< by line, of kUnmapped
  std::uint64_t remade_ = 0;  ///< the stamp of the last that was refused
  std::uint32_t* const multicast_readers_;
};

using RingWriter = BasicRingWriter<Ring>;

template <typename Ring>
class BasicRingReader {
 public:
  explicit BasicRingReader(Ring* ring) : ring_(ring) {}

  /// Whether the front slice is there, or the one so many behind it.
  bool there(std::uint32_t behind = 0) const {
    return line(behind).stamp.load() % Ring::kStampedAgain == Ring::stamp_of(popped_ + behind + 1);
  }
  /// Fetches what lies beyond the first cache line of a slice that is not there() yet, as of one
  /// that is as long as the one before: so its lines come together, and not one after another.
  void prefetch() const {
    const auto* const first = reinterpret_cast<const std::byte*>(&line());
    for (std::size_t i = 1; i <= lines_ahead_; i++) __builtin_prefetch(first + i * 64);
  }
  /// Copies of what its line says. Everything is to be decided by one of each: the writer may be a
  /// broken or an evil process, and say something else the next moment.
  SliceHeader header(std::uint32_t behind = 0) const {
    const auto copy = line(behind).header();
    no_second_look();
    return copy;
  }
  /// Of a slice that does not fit its line.
  typename Ring::Place place(std::uint32_t behind = 0) const {
    const auto copy = line(behind).place;
    no_second_look();
    return copy;
  }
  /// Where it lies, if it fits its line.
  const std::byte* in_line() const { return line().data.data(); }
  /// If it lies in a slot of this ring.
  const std::byte* in_slot(const typename Ring::Place& place) const {
    return ring_->slot(place.slot % Ring::kLines);
  }
  void fetch() { ring_->fetches.store(1, std::memory_order_relaxed); }
  void prefer_loans(LoanClass loans, bool prefers) {
    const std::uint32_t bit = 1U << loans % kLoanClasses;
    auto all = ring_->prefers_loans.load(std::memory_order_relaxed);
    all = prefers ? all | bit : all & ~bit;
    ring_->prefers_loans.store(all, std::memory_order_relaxed);
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
  /// Before a lent slice is read: false if it was taken back.
  bool begin_loan() {
    ring_->reading.store(1);
    if (ring_->revoked.load() == 0) return true;
    ring_->reading.store(0);
    return false;
  }
  /// After it was read: false if it was taken back, and what was read is worth nothing.
  bool end_loan() {
    ring_->reading.store(0);
    return ring_->revoked.load() == 0;
  }
  /// Of a slice of so many bytes. True if the writer is told: there is news for it.
  bool pop(std::size_t bytes) {
    const bool only_line = Ring::Line::holds(bytes);
    lines_ahead_ = only_line ? (kHeadBytes + bytes - 1) / 64 : 0;
    if (++popped_ - told_ <= Ring::kUntold && only_line) return false;
    told_ = popped_;
    ring_->popped.store(told_);
    return true;
  }

 private:
  /// For the compiler alone, which might look into shared memory again as well as into a copy.
  static void no_second_look() { std::atomic_signal_fence(std::memory_order_seq_cst); }
  typename Ring::Line& line(std::uint32_t behind = 0) const {
    return ring_->lines[(popped_ + behind) % Ring::kLines];
  }

  static constexpr auto kHeadBytes = sizeof(typename Ring::Line) - Ring::Line::kDataBytes;

  Ring* const ring_;
  std::uint64_t popped_ = 0;
  std::size_t lines_ahead_ = 0;  ///< of the slice before, beyond its first cache line
  std::uint64_t told_ = 0;       ///< of them, those that the writer knows of
};

using RingReader = BasicRingReader<Ring>;

}  // namespace ccoll::shm
