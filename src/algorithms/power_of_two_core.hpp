// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How recursive doubling and halving serve any number of ranks: a core of 2^k ranks does the
/// exchange. Each of the n - 2^k extra ranks hands its part to a neighbour before, and gets the
/// result after. The extra ranks are 0, 2, 4, …, and the next rank serves each of them. So the
/// ranks that a place of the core stands for are consecutive. Private to this folder.

#include <algorithm>

#include "algorithms/common.hpp"

namespace ccoll {

struct PowerOfTwoCore {
  explicit PowerOfTwoCore(Rank size) : rounds(floor_log2(size)), extra(size - (1U << rounds)) {}

  std::uint32_t rounds;
  Rank extra;  ///< ranks outside the core

  bool is_extra(Rank rank) const { return rank < 2 * extra && rank % 2 == 0; }
  bool serves_extra(Rank rank) const { return rank < 2 * extra && rank % 2 == 1; }
  /// A core rank's place, 0 … 2^rounds - 1, and the rank at a place.
  Rank place_of(Rank rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  Rank rank_at(Rank place) const { return place < extra ? 2 * place + 1 : place + extra; }
  Rank partner(Rank rank, std::uint32_t round) const {
    return rank_at(place_of(rank) ^ (1U << round));
  }
  /// The first rank that the places from `place` on stand for; place ≤ 2^rounds.
  Rank first_rank(Rank place) const { return place < extra ? 2 * place : place + extra; }
  /// One block for each rank that the group of 2^round places around `place` stands for.
  Operand group(Buffer buffer, Rank place, std::uint32_t round) const {
    const Rank first = place >> round << round;
    const Rank block = first_rank(first);
    return {buffer, block, first_rank(first + (1U << round)) - block};
  }
};

/// Messages on the longest path. A path takes one hop per bit in which its two places differ. It
/// takes one more if it begins at an extra rank, and one more if it ends at one. The places of
/// extra ranks are the lowest, and differ in fewer bits.
inline std::uint64_t recursive_doubling_depth(Rank size) {
  const PowerOfTwoCore core(size);
  if (core.extra == 0) return core.rounds;
  return std::max(core.rounds + 1, 2 + ceil_log2(core.extra));
}

/// For each place, the elements in the blocks of its groups of 1, 2, 4, … places, without the group
/// of all. Doubling sends as many and halving receives them. For ragged blocks: O(n log n).
std::vector<std::uint64_t> group_sums(const Problem& problem, const PowerOfTwoCore& core);

/// The largest of the group sums, for blocks of any sizes.
std::uint64_t largest_group_sum(const Problem& problem, const PowerOfTwoCore& core);

}  // namespace ccoll
