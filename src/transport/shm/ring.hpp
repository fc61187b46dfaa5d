// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory between the two ends of a shared-memory link, and its protocol. It is a bounded ring
/// of slices with one writer and one reader, in two processes or two threads.
///
/// Each slice has a line: its header, its data if they fit, and a stamp that publishes both. A line
/// is one cache line, half of it for data, plus as many more as the data take. Larger data lie in a
/// slot of this ring, or in a shared slot with several readers (multicast_slots.hpp). Or they are
/// lent, from memory of the writer's process that the reader has mapped. The line names the place.
/// The reader returns line, slot and loan by advancing `popped`. It returns bare lines several at a
/// time: the writer has more than it needs, and a store that is news costs as much as the rest.
/// Lent data may also lie in memory that the reader only reads (single_copy.hpp). If the kernel
/// refuses a read, the reader refuses that slice; the writer then copies it and stamps its line
/// again.
///
///   writer                                   reader
///   line i % kLines ← header, small data
///   slot            ← large data
///   line.stamp      ← i + 1              ──► line.stamp == i + 1: reads line and slot
///   popped > i                           ◄── popped ← i + 1
///
/// A writer whose call has failed takes back all loans, for good, with a bounded wait for a reader
/// that may have stopped in the middle:
///
///   revoked ← 1                              reading ← 1; revoked == 0: reads the loan
///   reading == 0, or time is up          ◄── reading ← 0; revoked == 0: the read was good
///
/// All but two are seq_cst: stamp, popped and refused because they are also the news, and the looks
/// for news, of the sleeping protocol (transport/sleep_word.hpp); release and acquire would do
/// otherwise. revoked and reading because each end stores one and then looks at the other. fetches
/// and prefers_loans are relaxed: they publish nothing, and a writer that sees them late only goes
/// the slower way once more. There are no fences.
///
/// The atomic type is a template parameter, so that tests/transport/shm/ring_explorer_test.cpp can
/// explore all that a C++ machine may do, beyond what this one shows.

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

/// Maximum bytes of a slice.
inline constexpr std::size_t kSlotBytes = 128 << 10;
/// Slice size for long data through slots, so that the peer reads one slice while the next is
/// written. Between cores without a common cache, longer slices are faster; but they are slower if
/// data and slots together no longer fit the caches.
inline constexpr std::size_t kShortSlotBytes = 32 << 10;
/// Data up to this length go in longer slices.
inline constexpr std::size_t kMostForLongSlots = 2 << 20;

/// The length of the slices of `whole` bytes.
inline std::size_t slot_bytes_for(std::uint64_t whole) {
  if (whole > kMostForLongSlots) return kShortSlotBytes;
  return std::clamp<std::uint64_t>(std::bit_floor(whole / 2), kShortSlotBytes, kSlotBytes);
}
static_assert(kSlotBytes >= kCommonSliceBytes);

/// Maximum bytes of a slice lent from memory that the reader has not mapped.
inline constexpr std::size_t kMostFetchedBytes = 1 << 20;

/// `kMostUntold`: lines that may be read before the reader reports it to the writer. `StampBits`: a
/// stamp is its slice's count without the top bit of this type; it differs from that of the line's
/// previous slice.
template <template <typename> typename Atomic, std::size_t kCount,
          std::size_t kMostUntold = kCount / 8, typename StampBits = std::uint32_t>
struct BasicRing {
  static constexpr std::size_t kLines = kCount;
  static constexpr std::size_t kUntold = kMostUntold;

  /// The place of data that do not fit their line.
  struct Place {
    std::uint32_t slot;    ///< or kLent, kMulticast, kUnmapped, kRemade
    std::uint32_t memory;  ///< for kLent: the memory's number in the writer's process
    std::uint64_t offset;  ///< in that memory or the shared slots; kUnmapped: an address
  };
  static constexpr std::uint32_t kLent = UINT32_MAX, kMulticast = UINT32_MAX - 1,
                                 kUnmapped = UINT32_MAX - 2, kRemade = UINT32_MAX - 3;
  using Stamp = StampBits;
  /// The bit in the stamp of a line whose slice was refused and copied.
  static constexpr Stamp kStampedAgain = std::numeric_limits<Stamp>::max() / 2 + 1;
  static_assert(kCount < kStampedAgain);
  static constexpr Stamp stamp_of(std::uint64_t count) {
    return static_cast<Stamp>(count % kStampedAgain);
  }

  /// Cache lines; only those that the data take are touched.
  struct alignas(64) Line {
    static constexpr std::size_t kDataBytes = 224;
    static constexpr bool holds(std::size_t bytes) { return bytes <= kDataBytes; }

    Atomic<Stamp> stamp;  // written by the writer: publishes the line and its slot
    std::uint32_t bytes;
    std::uint64_t sequence;
    Signature signature;
    union {
      std::array<std::byte, kDataBytes> data;  // of a slice of at most kDataBytes
      Place place;                             // of a larger one
    };

    /// Set field by field, as the header was made: loading recently stored pieces as a whole
    /// stalls.
    void set(const SliceHeader& header) {
      bytes = header.bytes;
      sequence = header.sequence;
      signature = header.signature;
    }
    SliceHeader header() const { return {sequence, signature, bytes, 0}; }
  };

  std::array<Line, kLines> lines;
  alignas(64) Atomic<std::uint64_t> popped;  // written by the reader, polled by the writer
  // Written by the reader while it reads a loan; the writer reads it only after a failure.
  alignas(64) Atomic<std::uint32_t> reading;
  alignas(64) Atomic<std::uint32_t> revoked;  // written by the writer: nothing is lent any more
  Atomic<std::uint32_t> fetches;  // written by the reader: it reads also what it has not mapped
  Atomic<std::uint32_t> prefers_loans;  // written by the reader: a bit for each LoanClass
  Atomic<std::uint64_t> refused;  // written by the reader: the stamp of a slice it cannot read so
  Atomic<std::uint32_t> writer_gone;
  Atomic<std::uint32_t> reader_gone;
  /// Set before the ring is handed over: after reading a slot, the reader returns all but its first
  /// page to the system.
  std::uint32_t is_thrifty = 0;

  /// Slots have pages of their own, used only by large slices: untouched pages cost nothing.
  std::byte* slot(std::uint32_t number) {
    return reinterpret_cast<std::byte*>(this) + kFirstSlot + number * kSlotBytes;
  }
  /// The copy of the slice refused last: behind the slots.
  std::byte* remade() { return slot(kLines); }
  static constexpr std::size_t kFirstSlot = 12 << 10;
  static constexpr std::size_t kBytes = kFirstSlot + kLines * kSlotBytes + kMostFetchedBytes;

  /// The part of a slot that the reader of a thrifty ring keeps.
  static constexpr std::size_t kKeptBytes = 4 << 10;

  /// `memory` must be all zero.
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
  /// Uses the slots [0, slots). Stays at most `lines` slices ahead of its reader, more than
  /// Ring::kUntold. `multicast_readers`: by shared slot, the number of its readers.
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
  /// Slices so far.
  std::uint64_t pushed() const { return pushed_; }
  /// Whether only a slot is lacking for has_room().
  bool lacks_slot() const { return has_line() && !has_slot(); }
  /// Keeps at most `slots` slots unread from now on. Uses the slots [0, slots) once it comes to the
  /// end of its present ones.
  void use(std::uint32_t slots) { next_slots_ = slots; }
  /// Memory for a slice of `bytes`: the same until push().
  std::byte* room(std::size_t bytes) {
    if (Ring::Line::holds(bytes)) return line().data.data();
    if (!std::exchange(chosen_, true) && bytes < kTakesTurns) {
      // If all slots have been read, start again with those in the caches.
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
  /// Copies a slice that the reader has refused; true if there was one. The lent memory must be
  /// unchanged. The slice is not taken from the line: the reader may be broken or malicious.
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
  std::uint64_t popped_ = 0;      ///< as last read: it may be more
  std::uint64_t lent_until_ = 0;  ///< slices before this count may be lent
  std::uint32_t slots_;
  std::uint32_t next_slots_;  ///< from the next wrap-around on
  std::uint32_t taken_slots_ = 0;
  std::uint32_t next_slot_ = 0;  ///< slots come back in the order in which they are taken
  bool chosen_ = false;          ///< room() has returned it
  static constexpr std::uint32_t kNothing = UINT32_MAX, kOwnSlot = UINT32_MAX - 1,
                                 kUnmapped = UINT32_MAX - 2;
  std::array<std::uint32_t, Ring::kLines> taken_{};  ///< by line: one of these, or a shared slot
  std::array<std::span<const std::byte>, Ring::kLines> unmapped_{};  ///< by line, for kUnmapped
  std::uint64_t remade_ = 0;  ///< count of the last refused slice
  std::uint32_t* const multicast_readers_;
};

using RingWriter = BasicRingWriter<Ring>;

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
  /// The data, if they lie in a slot of this ring.
  const std::byte* in_slot(const typename Ring::Place& place) const {
    return ring_->slot(place.slot % Ring::kLines);
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
