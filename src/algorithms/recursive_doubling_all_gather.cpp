// SPDX-License-Identifier: Apache-2.0

/// Recursive doubling all-gather: what a rank holds doubles with every round.
///
/// In round k a rank exchanges the blocks of its group of 2^k ranks for those of the group next to
/// it; they are consecutive, so each exchange is one message each way. When n is no power of two,
/// the extra ranks give their block to a neighbour first and get all the others from it last. Few
/// messages, no byte sent needlessly: for short blocks.
///
/// Rounds: log2 n, or at most ⌊log2 n⌋ + 2. Bytes sent per rank: n-1 blocks; about twice as many by
/// a rank that serves an extra one. Any n, blocks of any sizes. Source: R. Thakur, R. Rabenseifner,
/// W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005). Drawings:
/// recursive_doubling_all_gather_4.txt, recursive_doubling_all_gather_5.txt

#include <algorithm>

#include "algorithms/entries.hpp"
#include "algorithms/power_of_two_core.hpp"

namespace ccoll {
namespace {

Step keep_own(Rank rank, Rank to) {
  return {.local = {input(rank)}, .store = {output(rank)}, .sends = {to}, .lend = Lend::always};
}

/// The blocks that the group of 2^round places around `place` holds.
Operand group_blocks(const PowerOfTwoCore& core, Rank place, std::uint32_t round) {
  const Rank first = place >> round << round;
  const Rank block = core.first_rank(first);
  return output(block, core.first_rank(first + (1U << round)) - block);
}

Lane extra_lane(Rank rank, Rank n) {
  // All other blocks, from the next rank's on; block numbers are taken mod n.
  return {.steps = {keep_own(rank, rank + 1),
                    {.receives = {{rank + 1}}, .store = {output(rank + 1, n - 1)}}}};
}

/// Every block of the output is written once, so all of them may be lent.
Lane core_lane(const PowerOfTwoCore& core, Rank rank, Rank n) {
  Lane lane;
  if (core.serves_extra(rank)) {
    lane.steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
    lane.steps.push_back({.receives = {{rank - 1}}, .store = {output(rank - 1)}});
  } else {
    lane.steps.push_back(keep_own(rank, core.partner(rank, 0)));
  }
  const Rank place = core.place_of(rank);
  for (std::uint32_t round = 0; round < core.rounds; ++round) {
    const Rank partner = core.partner(rank, round);
    if (round > 0 || core.serves_extra(rank)) {
      lane.steps.push_back(
          {.local = {group_blocks(core, place, round)}, .sends = {partner}, .lend = Lend::always});
    }
    lane.steps.push_back(
        {.receives = {{partner}}, .store = {group_blocks(core, core.place_of(partner), round)}});
  }
  if (core.serves_extra(rank)) {
    lane.steps.push_back(
        {.local = {output(rank, n - 1)}, .sends = {rank - 1}, .lend = Lend::always});
  }
  return lane;
}

/// What each rank sends, block by block: O(n log n), for ragged blocks only.
void add_ragged_loads(const Problem& problem, Theory& theory) {
  const Rank n = problem.size;
  const PowerOfTwoCore core(n);
  std::vector<std::uint64_t> before(n + 1, 0);
  for (Rank b = 0; b < n; ++b) before[b + 1] = before[b] + problem.block_counts[b];
  for (Rank rank = 0; rank < n; ++rank) {
    std::uint64_t sent = problem.block_counts[rank];
    if (!core.is_extra(rank)) {
      sent = 0;
      for (std::uint32_t round = 0; round < core.rounds; ++round) {
        const Rank first = core.place_of(rank) >> round << round;
        sent += before[core.first_rank(first + (1U << round))] - before[core.first_rank(first)];
      }
      if (core.serves_extra(rank)) sent += before[n] - problem.block_counts[rank - 1];
    }
    theory.busiest.elems_sent = std::max(theory.busiest.elems_sent, sent);
    theory.total.elems_sent += sent;
  }
}

}  // namespace

Program recursive_doubling_all_gather(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  const PowerOfTwoCore core(n);
  Program program = empty_program(problem, rank, n);
  program.lanes.push_back(core.is_extra(rank) ? extra_lane(rank, n) : core_lane(core, rank, n));
  return program;
}

Theory recursive_doubling_all_gather_theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  const std::uint64_t rounds = floor_log2(n);
  const std::uint64_t core = std::uint64_t{1} << rounds;
  const std::uint64_t extra = n - core;
  Theory theory{.blocks = problem.size};
  if (n > 1) theory.blocks_per_message = static_cast<std::uint32_t>(extra > 0 ? n - 1 : n / 2);
  if (moves_nothing(problem)) return theory;
  theory.depth = recursive_doubling_depth(problem.size);
  theory.busiest.messages = rounds + (extra > 0 ? 1 : 0);
  theory.total.messages = core * rounds + 2 * extra;
  if (!problem.block_counts.empty()) {
    add_ragged_loads(problem, theory);
    return theory;
  }
  // The lowest place's groups hold most extra ranks, and it serves one itself if there are any.
  std::uint64_t blocks = extra > 0 ? n - 1 : 0;
  std::uint64_t all = extra * n;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::uint64_t group = std::uint64_t{1} << round;
    blocks += group + std::min(group, extra);
    all += group * n;  // every member of a group sends all of the group's blocks
  }
  theory.busiest.elems_sent = blocks * problem.count;
  theory.total.elems_sent = all * problem.count;
  return theory;
}

}  // namespace ccoll
