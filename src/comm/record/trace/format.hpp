// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The contents of a trace file (docs/trace_format.md is for programs): a header, its text, and
/// then entries of one size, in the order in which they were written. Numbers are the machine's
/// own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "schedule/step_record.hpp"

namespace ccoll::trace {

inline constexpr std::array<char, 8> kMagic = {'c', 'c', 'T', 'R', 'A', 'C', 'E', '\n'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kByteOrder = 0x01020304;
inline constexpr std::size_t kEntryBytes = 48;

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t byte_order = kByteOrder;
  std::uint32_t version = kVersion;
  std::uint32_t entry_bytes = kEntryBytes;
  std::uint32_t text_bytes = 0;  ///< of the text that follows, filled up with spaces to entries
  std::array<std::uint64_t, 3> reserved = {};
};

/// Readers pass over kinds that they do not know.
enum class EntryKind : std::uint8_t {
  plan = 1,     ///< followed by a text: how calls that name it are carried out
  call = 2,     ///< a collective begins
  end = 3,      ///< it is over
  step = 4,     ///< of the latest call that has begun
  message = 5,  ///< a send or recv that is over
  write = 6,    ///< the recorder itself has written to the file
  clock = 7,    ///< begins each piece that is written: two clocks, read together
  blocks = 8,   ///< of the latest call that has begun: sizes of some of its blocks
};

/// Times of messages are nanoseconds of the header's clock. All others are ticks, which the clock
/// entries before and after them convert.
struct PlanEntry {
  EntryKind kind = EntryKind::plan;
  std::uint8_t unused[3] = {};
  std::uint32_t plan = 0;        ///< its number: 0, 1, …
  std::uint32_t text_bytes = 0;  ///< as the header's
  std::uint8_t reserved[36] = {};
};

struct CallEntry {
  EntryKind kind = EntryKind::call;
  std::uint8_t signature_kind = 0;
  std::uint8_t signature_type = 0;
  std::uint8_t signature_op = 0;
  std::uint32_t plan = 0;
  std::uint64_t sequence = 0;  ///< of the call in its communicator
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  std::uint32_t root = 0;
  std::uint8_t reserved[12] = {};
};

struct EndEntry {
  EntryKind kind = EntryKind::end;
  std::uint8_t unused[7] = {};
  std::uint64_t sequence = 0;
  std::uint64_t end = 0;
  std::uint8_t reserved[24] = {};
};

struct StepEntry {
  EntryKind kind = EntryKind::step;
  Awaited awaited = Awaited::nothing;  ///< the last one, if there were several
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  std::uint32_t window = 0;
  std::uint32_t peer = 0;      ///< the awaited one
  std::uint32_t bytes = 0;     ///< of each slice that it receives and sends
  std::uint32_t sequence = 0;  ///< of the call, its lower half
  std::uint64_t begin = 0;     ///< the lane has come to it
  std::uint64_t moved = 0;     ///< its wait is over
  std::uint64_t end = 0;       ///< it has received, combined, stored and sent
};

struct MessageEntry {
  EntryKind kind = EntryKind::message;
  std::uint8_t is_send = 0;
  std::uint8_t type = 0;
  std::uint8_t unused = 0;
  std::uint32_t peer = 0;
  std::uint32_t tag = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t reserved_too = 0;
};

struct WriteEntry {
  EntryKind kind = EntryKind::write;
  std::uint8_t unused[7] = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  std::uint8_t reserved[16] = {};
};

struct ClockEntry {
  EntryKind kind = EntryKind::clock;
  std::uint8_t unused[7] = {};
  std::uint64_t ticks = 0;
  std::uint64_t ns = 0;
  std::uint8_t reserved[24] = {};
};

/// For a call with blocks of different sizes, as its rank knows them. Entries of five zeros are not
/// written, except for the first entry.
struct BlocksEntry {
  static constexpr std::size_t kCounts = 5;
  EntryKind kind = EntryKind::blocks;
  std::uint8_t unused[3] = {};
  std::uint32_t first = 0;  ///< the block of the first count, a multiple of kCounts
  std::array<std::uint64_t, kCounts> counts = {};
};

template <typename T>
inline constexpr bool kIsEntry = sizeof(T) == kEntryBytes && std::is_trivially_copyable_v<T>;
static_assert(kIsEntry<FileHeader> && kIsEntry<PlanEntry> && kIsEntry<CallEntry> &&
              kIsEntry<EndEntry> && kIsEntry<StepEntry> && kIsEntry<MessageEntry> &&
              kIsEntry<WriteEntry> && kIsEntry<ClockEntry> && kIsEntry<BlocksEntry>);

}  // namespace ccoll::trace
