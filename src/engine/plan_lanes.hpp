// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The lanes of a program, made ready for this rank's links: each step with its links and blocks,
/// and where the present run stands in them. A short step is the same step, for runs whose data are
/// contiguous and fit one slice. Plan (plan.hpp) executes them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/memory_range.hpp"
#include "schedule/schedule.hpp"
#include "transport/link.hpp"

namespace ccoll::lanes {

/// A block as a step sees it.
struct BlockPlace {
  Buffer buffer;
  std::uint32_t block;
  std::uint64_t scratch_offset;  ///< in elements
};

/// Where a block begins in its buffer and how long it is, in elements.
struct Extent {
  std::uint64_t offset;
  std::uint64_t elems;
};

/// The traffic of a step, per send and per receive.
struct Volume {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  void add(const Volume& other, std::uint64_t times) {
    messages += other.messages * times;
    bytes += other.bytes * times;
  }
};

struct ReadyStep {
  std::vector<BlockPlace> local;
  std::vector<BlockPlace> store;
  std::vector<ReceiveLink*> receives;
  std::vector<Rank> from;
  std::vector<SendLink*> sends;
  std::vector<Rank> to;
  std::size_t local_position = 0;  ///< own data's place among the sources, by rank
  std::optional<After> after;
  std::uint32_t divisor = 1;
  Lend lend = Lend::never;
  bool combines = false;
  bool copies_input = false;  ///< stores a plain copy of the input
  /// Stores a whole block of the output, window by window, as the only step: nobody else accesses
  /// the rest of it meanwhile.
  bool fills_block = false;
  Volume before;  ///< of runs with other block sizes
};

/// Place of a step's data if contiguous, in any run's buffers; in bytes.
struct Place {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  Buffer buffer = Buffer::input;
};

/// Special cases of a short step. `gives`: sends its own data to one peer and may store them.
/// `takes`: stores one peer's slice, and may combine it with own data first.
enum class Shape : std::uint8_t { any, gives, takes };

struct ShortStep {
  Place local = {};
  Place store = {};
  std::uint32_t bytes = 0;
  std::uint32_t elems = 0;
  std::uint32_t divisor = 1;
  Shape shape = Shape::any;
  Lend lend = Lend::never;
  bool combines = false;
  bool own_first = false;       ///< own data is the left operand
  SendLink* to = nullptr;       ///< for Shape::gives
  ReceiveLink* from = nullptr;  ///< for Shape::takes
};

struct ReadyLane {
  static constexpr std::uint32_t kNothing = UINT32_MAX;
  static constexpr std::uint32_t kStep = UINT32_MAX - 1;
  std::vector<ReadyStep> steps;
  std::vector<ShortStep> short_steps;  ///< the same, for short runs
  std::vector<std::byte> scratch;
  std::uint64_t stripe = 0;
  // The present run:
  std::uint64_t window = 0;
  std::size_t position = 0;
  bool entered = false;
  std::size_t bytes = 0;          ///< of the present step's slice
  std::uint64_t block_elems = 0;  ///< of the slice's block, if sizes are private
  bool has_slice = false;         ///< if false, the present step has nothing to do
  std::vector<MemoryRange> local;
  std::vector<MemoryRange> store;
  bool lends = false;
  bool lends_input = false;  ///< instead of its copy, before it is made
  /// For the observer, what the present step lacked last: the index of a receive or, beyond
  /// those, of a send; or kNothing or kStep.
  std::uint32_t lacked = kNothing;
  /// The memory that the present step lends, if it does.
  const std::vector<MemoryRange>& lendable(const ReadyStep& step) const {
    return step.store.empty() || lends_input ? local : store;
  }
};

/// Where each block lies in its buffer. Scratch is measured like the input.
class Extents {
 public:
  const Extent& of(const BlockPlace& part) const {
    return (part.buffer == Buffer::output ? outputs_ : inputs_)[part.block];
  }
  std::vector<Extent>& of(Buffer buffer) { return buffer == Buffer::input ? inputs_ : outputs_; }
  /// The elements of the longest block.
  std::uint64_t longest() const {
    std::uint64_t longest = 0;
    for (const auto* extents : {&inputs_, &outputs_})
      for (const auto& extent : *extents) longest = std::max(longest, extent.elems);
    return longest;
  }

 private:
  std::vector<Extent> inputs_;  ///< by block
  std::vector<Extent> outputs_;
};

/// Memory between a step's sources and its result, reused by every step.
class StepRoom {
 public:
  /// Bytes made aside at a time: they stay in a core's own cache until they are copied.
  static constexpr std::size_t kAsideBytes = 64 << 10;
  /// The same for rows.
  static constexpr std::size_t kRowsBytes = 32 << 10;

  /// For steps with so many sources at most.
  void widen(std::size_t sources) { sources_.resize(sources); }
  void prepare_aside() {
    if (!aside_) aside_ = std::make_unique_for_overwrite<std::byte[]>(kAsideBytes);
  }
  void prepare_rows() {
    if (!rows_) rows_ = std::make_unique_for_overwrite<std::byte[]>(2 * kRowsBytes);
  }

  /// The addresses of the present step's sources.
  const std::byte** sources() { return sources_.data(); }
  /// For Copier::sender_aside; null unless it is prepared.
  std::byte* aside() const { return aside_.get(); }
  /// kRowsBytes for rows that are gathered, and as many for a result before it is scattered.
  std::byte* gathered() const { return rows_.get(); }
  std::byte* to_scatter() const { return rows_.get() + kRowsBytes; }

 private:
  std::vector<const std::byte*> sources_;
  std::unique_ptr<std::byte[]> aside_;
  std::unique_ptr<std::byte[]> rows_;
};

}  // namespace ccoll::lanes
