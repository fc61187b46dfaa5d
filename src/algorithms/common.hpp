// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Operands, rank arithmetic and sums that the algorithms share. Private to this folder.

#include <bit>
#include <cstdint>

#include "algorithms/algorithms.hpp"

namespace ccoll {

inline Operand input(std::uint32_t block, std::uint32_t blocks = 1) {
  return {Buffer::input, block, blocks};
}
inline Operand output(std::uint32_t block, std::uint32_t blocks = 1) {
  return {Buffer::output, block, blocks};
}
inline Operand scratch(std::uint32_t block, std::uint32_t blocks = 1) {
  return {Buffer::scratch, block, blocks};
}

/// (rank + distance) mod size and (rank - distance) mod size; distance ≤ size.
inline Rank ahead(Rank rank, Rank distance, Rank size) {
  return static_cast<Rank>((std::uint64_t{rank} + distance) % size);
}
inline Rank behind(Rank rank, Rank distance, Rank size) {
  return static_cast<Rank>((std::uint64_t{rank} + size - distance) % size);
}

/// Floor and ceiling of log2(value); value ≥ 1.
inline std::uint32_t floor_log2(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::bit_width(value) - 1);
}
inline std::uint32_t ceil_log2(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::bit_width(value - 1));
}

/// How many of 0, 1, …, below-1 have bit `bit` set.
std::uint64_t numbers_with_bit(std::uint32_t bit, std::uint64_t below);

/// A program without lanes, its buffers cut into `blocks` parts.
Program empty_program(const Problem& problem, Rank rank, std::uint32_t blocks);

/// A program of one lane.
Program one_lane(const Problem& problem, Rank rank, std::uint32_t blocks, Lane lane);

/// The program of a rank that is alone: its input is the result.
Program program_alone(const Problem& problem);

/// Sums over the sizes of the blocks. O(1) unless the problem has block_counts.
struct BlockSizes {
  std::uint64_t total = 0;
  std::uint64_t largest = 0;
  std::uint64_t smallest = 0;
  std::uint64_t present = 0;  ///< how many are not empty
};
BlockSizes block_sizes(const Problem& problem, std::uint32_t blocks);

/// The elements that a step repeats if it sends `elems` to so many ranks: Load::elems_repeated.
constexpr std::uint64_t repeated(std::uint64_t elems, std::uint64_t receivers) {
  return receivers > 1 ? elems * (receivers - 1) : 0;
}

/// Adds one rank's load, and its part that crosses between hosts, to busiest and total.
void count_rank(Theory& theory, const Load& load, const Load& crossing);

/// Whether no element is ever moved between ranks.
bool moves_nothing(const Problem& problem);

}  // namespace ccoll
