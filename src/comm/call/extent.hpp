// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How many elements of which type a collective moves, according to the two blocks that a rank
/// gives for it. Knows nothing of a communicator.

#include <cstddef>
#include <optional>
#include <string_view>

#include "ccoll/blocks.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

/// More bytes than any block has: addresses of all processors in use have at most 57 bits, half of
/// them for programs. Sums of a few such numbers do not overflow.
inline constexpr std::size_t kBeyondMemory = std::size_t{1} << 56;

struct Extent {
  std::size_t count = 0;  ///< as Problem::count
  DataType type = DataType::uint8;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// A rank's place in a collective, as far as its blocks depend on it.
struct Place {
  bool is_root = false;
  Rank size = 1;
};

/// Whether the elements lie one after another: without rows, in one row, or in rows without gaps.
template <typename AnyBlock>
constexpr bool is_contiguous(const AnyBlock& block) {
  return (block.row_length | block.stride) == 0 || block.count == 0 ||
         block.count == block.row_length ||
         (block.stride == block.row_length && block.count % block.row_length == 0);
}

/// The extent, if both blocks fit each other, whatever their rows are. Repeated calls come through
/// here, so it is inline and divides only where a buffer has a part for each rank.
inline std::optional<Extent> extent_of_counts(Kind kind, const ConstBlock& input,
                                              const Block& output, Place place) {
  const bool reads = place.is_root || !is_roots_alone(kind, Buffer::input);
  const bool writes = place.is_root || !is_roots_alone(kind, Buffer::output);
  if (reads && writes && input.type != output.type) return std::nullopt;
  const auto type = reads ? input.type : output.type;
  if (divides_whole_buffer(kind)) {
    if (reads && writes && input.count != output.count) return std::nullopt;
    return Extent{reads ? input.count : output.count, type};
  }
  const std::size_t in_parts = holds_own_block_only(kind, Buffer::input) ? 1 : place.size;
  const std::size_t out_parts = holds_own_block_only(kind, Buffer::output) ? 1 : place.size;
  const auto count = reads ? input.count / in_parts : output.count / out_parts;
  const auto fits = [count](std::size_t whole, std::size_t parts) {
    return whole % parts == 0 && whole / parts == count;
  };
  if ((reads && !fits(input.count, in_parts)) || (writes && !fits(output.count, out_parts)))
    return std::nullopt;
  return Extent{count, type};
}

/// The same, if the elements of both blocks lie one after another.
inline std::optional<Extent> fitting_extent(Kind kind, const ConstBlock& input, const Block& output,
                                            Place place) {
  const bool reads = place.is_root || !is_roots_alone(kind, Buffer::input);
  const bool writes = place.is_root || !is_roots_alone(kind, Buffer::output);
  if ((reads && !is_contiguous(input)) || (writes && !is_contiguous(output))) return std::nullopt;
  return extent_of_counts(kind, input, output, place);
}

/// The extent, or why there is none; `call` is what the caller knows the call by.
Result<Extent> extent_of(std::string_view call, Kind kind, const ConstBlock& input,
                         const Block& output, Place place);

/// That the block has whole rows, which do not overlap; `what` is "input", "output block 3".
Status check_rows(std::string_view call, std::string_view what, const ConstBlock& block);

}  // namespace ccoll
