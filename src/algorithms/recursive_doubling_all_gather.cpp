// SPDX-License-Identifier: Apache-2.0

/// Recursive doubling all-gather: the data that a rank holds double with every round.
///
/// In round k a rank exchanges the blocks of its group of 2^k ranks for those of the next group.
/// They are consecutive, so each exchange is one message each way. If n is not a power of two, the
/// extra ranks give their block to a neighbour first and get all the others from it last. It sends
/// few messages, and no byte that is not needed: for short blocks.
///
/// Rounds: log2 n, or at most ⌊log2 n⌋ + 2. Bytes sent per rank: n-1 blocks; about twice as many by
/// a rank that serves an extra one. Any n, blocks of any sizes.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
/// Drawings: recursive_doubling_all_gather_4.txt, recursive_doubling_all_gather_5.txt

#include <algorithm>

#include "algorithms/entries.hpp"
#include "algorithms/power_of_two_core.hpp"

namespace ccoll {
namespace {

Step keep_own(Rank rank, Rank to) {
  return {.local = {input(rank)}, .store = {output(rank)}, .sends = {to}, .lend = Lend::always};
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
      lane.steps.push_back({.local = {core.group(Buffer::output, place, round)},
                            .sends = {partner},
                            .lend = Lend::always});
    }
    lane.steps.push_back({.receives = {{partner}},
                          .store = {core.group(Buffer::output, core.place_of(partner), round)}});
  }
  if (core.serves_extra(rank)) {
    lane.steps.push_back(
        {.local = {output(rank, n - 1)}, .sends = {rank - 1}, .lend = Lend::always});
  }
  return lane;
}

/// Adds each rank's load, for ragged blocks only.
void add_ragged_loads(const Problem& problem, Theory& theory) {
  const PowerOfTwoCore core(problem.size);
  const std::uint64_t all = block_sizes(problem, problem.size).total;
  const std::vector<std::uint64_t> sums = group_sums(problem, core);
  for (Rank rank = 0; rank < problem.size; ++rank) {
    std::uint64_t sent = problem.block_counts[rank];
    if (!core.is_extra(rank)) sent = sums[core.place_of(rank)];
    if (core.serves_extra(rank)) sent += all - problem.block_counts[rank - 1];
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
  const std::uint64_t served = extra > 0 ? (n - 1) * problem.count : 0;
  theory.busiest.elems_sent = largest_group_sum(problem, PowerOfTwoCore(problem.size)) + served;
  // Every member of a group sends all of the group's blocks.
  theory.total.elems_sent = (extra + core - 1) * n * problem.count;
  return theory;
}

}  // namespace ccoll
