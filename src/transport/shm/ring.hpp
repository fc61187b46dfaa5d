// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory between the two ends of a shared-memory link, and the protocol on it: a bounded ring
/// of slices with one writer and one reader, in processes of their own or threads of one.
///
/// A slice is announced by one cache line: its header, its data where they fit, and a stamp that
/// publishes both. Larger data lie in a slot whose number the line says. The reader hands the line
/// and the slot back by counting up `popped`.
///
///   writer                                   reader
///   line i % kLines ← header, small data
///   slot            ← large data
///   line.stamp      ← i + 1              ──► line.stamp == i + 1: reads line and slot
///   popped > i                           ◄── popped ← i + 1
///
/// All four are seq_cst because they are also the news, and the looks for news, of the sleeping
/// protocol (transport/sleep_word.hpp); release and acquire would do otherwise. There are no
/// fences.
///
/// Templates over the atomic type, so that tests/transport/ring_explorer_test.cpp can go through
/// all that a C++ machine may do, which this one never shows.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "transport/link.hpp"

namespace ccoll::shm {

/// Most bytes of a slice.
inline constexpr std::size_t kSlotBytes = 128 << 10;
static_assert(kSlotBytes >= kCommonSliceBytes);

template <template <typename> typename Atomic, std::size_t kCount>
struct BasicRing {
  static constexpr std::size_t kLines = kCount;

  /// One cache line.
  struct alignas(64) Line {
    static constexpr std::size_t kDataBytes = 24;

    Atomic<std::uint64_t> stamp;  // written by the writer: publishes the line and its slot
    SliceHeader header;
    union {
      std::array<std::byte, kDataBytes> data;  // of a slice of at most so many bytes
      std::uint32_t slot;                      // where those of a larger one lie
    };
  };

  std::array<Line, kLines> lines;
  alignas(64) Atomic<std::uint64_t> popped;  // written by the reader
  alignas(64) Atomic<std::uint32_t> writer_gone;
  Atomic<std::uint32_t> reader_gone;

  /// Pages of their own, used only where slices are large: what is never touched costs nothing.
  std::byte* slot(std::uint32_t number) {
    return reinterpret_cast<std::byte*>(this) + kFirstSlot + number * kSlotBytes;
  }
  static constexpr std::size_t kFirstSlot = 4096;
  static constexpr std::size_t kBytes = kFirstSlot + kLines * kSlotBytes;

  /// In memory that is all zero.
  static BasicRing* make(std::byte* memory) { return new (memory) BasicRing(); }
  static BasicRing* at(std::byte* memory) {
    return std::launder(reinterpret_cast<BasicRing*>(memory));
  }
};

using Ring = BasicRing<std::atomic, 16>;
static_assert(sizeof(Ring::Line) == 64);
static_assert(sizeof(Ring) <= Ring::kFirstSlot);
static_assert(Ring::kLines >= kLinkSlots);

template <typename Ring>
class BasicRingWriter {
 public:
  explicit BasicRingWriter(Ring* ring) : ring_(ring) {}

  bool has_room() {
    if (pushed_ - popped_ < Ring::kLines) return true;
    look();
    return pushed_ - popped_ < Ring::kLines;
  }
  /// Where a slice of `bytes` goes: the same until push().
  std::byte* room(std::size_t bytes) {
    if (bytes <= Ring::Line::kDataBytes) return line().data.data();
    if (!std::exchange(chosen_, true)) {
      // Where all has been read, one begins again with the memory that the caches know.
      if (bytes >= kWorthALook) look();
      if (pushed_ == popped_) slot_ = 0;
    }
    return ring_->slot(slot_);
  }
  void push(const SliceHeader& header) {
    auto& line = this->line();
    line.header = header;
    if (header.bytes > Ring::Line::kDataBytes) {
      line.slot = slot_;
      slot_ = (slot_ + 1) % Ring::kLines;
      chosen_ = false;
    }
    line.stamp.store(++pushed_);
  }

 private:
  /// Data that take longer to copy than the reader's count does to come.
  static constexpr std::size_t kWorthALook = 4 << 10;

  typename Ring::Line& line() { return ring_->lines[pushed_ % Ring::kLines]; }
  void look() { popped_ = ring_->popped.load(); }

  Ring* const ring_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;  ///< when last looked at: it may be more
  std::uint32_t slot_ = 0;    ///< the next one; those in use are the ones before it
  bool chosen_ = false;       ///< whether room() has told of slot_
};

using RingWriter = BasicRingWriter<Ring>;

template <typename Ring>
class BasicRingReader {
 public:
  explicit BasicRingReader(Ring* ring) : ring_(ring) {}

  /// Whether the front slice is there.
  bool there() const { return line().stamp.load() == popped_ + 1; }
  const SliceHeader& header() const { return line().header; }
  const std::byte* data() const {
    const auto& front = line();
    if (front.header.bytes <= Ring::Line::kDataBytes) return front.data.data();
    return ring_->slot(front.slot % Ring::kLines);
  }
  void pop() { ring_->popped.store(++popped_); }

 private:
  typename Ring::Line& line() const { return ring_->lines[popped_ % Ring::kLines]; }

  Ring* const ring_;
  std::uint64_t popped_ = 0;
};

using RingReader = BasicRingReader<Ring>;

}  // namespace ccoll::shm
