// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory between the two ends of a shared-memory link, and its protocol. It is a bounded ring
/// of slices with one writer (ring_writer.hpp) and one reader (ring_reader.hpp), in two processes
/// or two threads.
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
///   slot            ← large data; short ones may lie one behind another
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
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

#include "transport/link.hpp"

namespace ccoll::shm {

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
    std::uint64_t offset;  ///< in that slot, memory or the shared slots; kUnmapped: an address
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

}  // namespace ccoll::shm
