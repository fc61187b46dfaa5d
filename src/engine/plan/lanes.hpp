// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The lanes of a program, made ready for this rank's links: each step with its links and blocks,
/// and where the present run stands in them. A short step is the same step, for runs whose data are
/// contiguous and fit one slice.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/memory_range.hpp"
#include "schedule/schedule.hpp"
#include "transport/link.hpp"

namespace ccoll {

/// A block as a step sees it.
struct BlockPlace {
  Buffer buffer;
  std::uint32_t block;
  std::uint64_t scratch_offset;  ///< in elements
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

  /// The blocks whose parts its slice has.
  const std::vector<BlockPlace>& slice() const { return local.empty() ? store : local; }
  /// Whether it may lend the input that it copies: nobody writes the input. Receivers then need not
  /// wait for the copy, nor fetch lines that this rank has just written.
  bool may_lend_input(bool in_place) const { return copies_input && !sends.empty() && !in_place; }
};

/// Place of a step's data if contiguous, in any run's buffers; in bytes.
struct BufferPlace {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  Buffer buffer = Buffer::input;
};

/// Special cases of a short step. `gives`: sends its own data to one peer and may store them.
/// `takes`: stores one peer's slice, and may combine it with own data first.
enum class ShortShape : std::uint8_t { any, gives, takes };

struct ShortStep {
  BufferPlace local = {};
  BufferPlace store = {};
  std::uint32_t bytes = 0;
  std::uint32_t elems = 0;
  std::uint32_t divisor = 1;
  ShortShape shape = ShortShape::any;
  Lend lend = Lend::never;
  bool combines = false;
  bool own_first = false;       ///< own data is the left operand
  SendLink* to = nullptr;       ///< for ShortShape::gives
  ReceiveLink* from = nullptr;  ///< for ShortShape::takes
};

/// The data of a step in one window.
struct WindowData {
  std::size_t bytes = 0;          ///< of the slice
  std::uint64_t block_elems = 0;  ///< of the slice's block, if sizes are private
  bool has_slice = false;         ///< if false, the step has nothing to do
  bool lends = false;
  bool lends_input = false;  ///< instead of its copy, before it is made
  std::vector<MemoryRange> local;
  std::vector<MemoryRange> store;
};

struct ReadyLane {
  static constexpr std::uint32_t kNothing = UINT32_MAX;
  static constexpr std::uint32_t kStep = UINT32_MAX - 1;
  std::vector<ReadyStep> steps;
  std::vector<ShortStep> short_steps;  ///< the same, for short runs
  std::vector<std::byte> scratch;
  std::uint64_t stripe = 0;
  std::uint16_t number = 0;
  // The present run:
  bool entered = false;  ///< `data` is that of the present step
  /// For the observer, what the present step lacked last: the index of a receive or, beyond
  /// those, of a send; or kNothing or kStep.
  std::uint32_t lacked = kNothing;
  std::uint64_t window = 0;
  std::size_t position = 0;
  WindowData data;

  const ReadyStep& step() const { return steps[position]; }
};

/// Whether the step of another lane has run that the lane's present one must follow.
inline bool after_holds(std::span<const ReadyLane> lanes, const ReadyLane& lane) {
  const auto& after = lane.step().after;
  if (!after) return true;
  const auto& other = lanes[after->lane];
  return other.window > lane.window ||
         (other.window == lane.window && other.position > after->step);
}

}  // namespace ccoll
