// SPDX-License-Identifier: Apache-2.0

/// Recursive halving: the range that a rank is responsible for halves with every round.
///
/// Reduce-scatter: in each round a rank sends its partner the half of its blocks on the partner's
/// side, and adds what it gets to the other half. The first distance is the longest; the last round
/// leaves one block. All-reduce (Rabenseifner's algorithm) does this and then runs the rounds
/// backwards, so that all ranks get all blocks: as few bytes as a ring, in 2 log2 n messages. If n
/// is not a power of two, the extra ranks first add all they have to a neighbour's, and get their
/// result from it last.
///
/// Rounds: log2 n for reduce_scatter, 2 log2 n for all_reduce; up to 2 more if n is no power of
/// two. Bytes sent per rank: (n-1)/n × size for reduce_scatter, twice that for all_reduce. A rank
/// that serves an extra one also sends it the result or its block. Any n; blocks of any sizes.
/// Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS (2004); R.
/// Thakur, R. Rabenseifner, W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
/// Drawings: recursive_halving_all_reduce_4.txt, recursive_halving_reduce_scatter_5.txt

#include <algorithm>

#include "algorithms/entries.hpp"
#include "algorithms/power_of_two_core.hpp"

namespace ccoll {
namespace {

/// The blocks of 2^round places around `place`, when every place has one.
Operand group_of_one_each(Buffer buffer, Rank place, std::uint32_t round) {
  return {buffer, place >> round << round, 1U << round};
}

Lane all_reduce_lane(const PowerOfTwoCore& core, Rank rank) {
  Lane lane;
  const Rank place = core.place_of(rank);
  const bool serves = core.serves_extra(rank);
  const std::uint32_t blocks = 1U << core.rounds;
  if (serves) {
    lane.steps.push_back(
        {.receives = {{rank - 1}}, .local = {input(0, blocks)}, .store = {output(0, blocks)}});
  }
  Buffer held = serves ? Buffer::output : Buffer::input;
  for (std::uint32_t round = core.rounds; round-- > 0;) {
    const Rank partner = core.partner(rank, round);
    // A rank gets the sent blocks back only as a part of the result that was made from them.
    lane.steps.push_back({.local = {group_of_one_each(held, core.place_of(partner), round)},
                          .sends = {partner},
                          .lend = Lend::always});
    lane.steps.push_back({.receives = {{partner}},
                          .local = {group_of_one_each(held, place, round)},
                          .store = {group_of_one_each(Buffer::output, place, round)},
                          .finish = round == 0});
    held = Buffer::output;
  }
  for (std::uint32_t round = 0; round < core.rounds; ++round) {
    const Rank partner = core.partner(rank, round);
    lane.steps.push_back({.local = {group_of_one_each(Buffer::output, place, round)},
                          .sends = {partner},
                          .lend = Lend::always});
    lane.steps.push_back(
        {.receives = {{partner}},
         .store = {group_of_one_each(Buffer::output, core.place_of(partner), round)}});
  }
  if (serves) {
    lane.steps.push_back({.local = {output(0, blocks)}, .sends = {rank - 1}, .lend = Lend::always});
  }
  return lane;
}

Lane reduce_scatter_lane(const PowerOfTwoCore& core, Rank rank, Rank n) {
  Lane lane;
  const Rank place = core.place_of(rank);
  const bool serves = core.serves_extra(rank);
  Buffer held = Buffer::input;
  if (serves || core.rounds > 1) {
    // Scratch has the blocks that the rank holds after its first step.
    const Operand kept =
        serves ? scratch(0, n) : core.group(Buffer::scratch, place, core.rounds - 1);
    lane.scratch_block = kept.block;
    lane.scratch_blocks = kept.blocks;
  }
  if (serves) {
    lane.steps.push_back(
        {.receives = {{rank - 1}}, .local = {input(0, n)}, .store = {scratch(0, n)}});
    held = Buffer::scratch;
  }
  for (std::uint32_t round = core.rounds; round-- > 0;) {
    const Rank partner = core.partner(rank, round);
    // In place, only the own block of the input is written, and it is not sent. Scratch is written
    // again in the next window.
    lane.steps.push_back({.local = {core.group(held, core.place_of(partner), round)},
                          .sends = {partner},
                          .lend = held == Buffer::input ? Lend::always : Lend::never});
    Step keep{.receives = {{partner}},
              .local = {core.group(held, place, round)},
              .store = {core.group(Buffer::scratch, place, round)},
              .finish = round == 0};
    if (round == 0) keep.store = {output(rank)};
    if (round == 0 && serves) keep.store = {scratch(rank - 1), output(rank)};
    lane.steps.push_back(std::move(keep));
    held = Buffer::scratch;
  }
  if (serves) lane.steps.push_back({.local = {scratch(rank - 1)}, .sends = {rank - 1}});
  return lane;
}

/// In place, a result that contains the input overwrites it, so it has been read.
Lane extra_lane(Rank rank, std::uint32_t blocks, Operand result) {
  return {.steps = {{.local = {input(0, blocks)}, .sends = {rank + 1}, .lend = Lend::always},
                    {.receives = {{rank + 1}}, .store = {result}}}};
}

}  // namespace

Program recursive_halving_all_reduce(const Problem& problem, Rank rank) {
  const PowerOfTwoCore core(problem.size);
  const std::uint32_t blocks = 1U << core.rounds;
  return one_lane(problem, rank, blocks,
                  core.is_extra(rank) ? extra_lane(rank, blocks, output(0, blocks))
                                      : all_reduce_lane(core, rank));
}

Program recursive_halving_reduce_scatter(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  const PowerOfTwoCore core(n);
  return one_lane(
      problem, rank, n,
      core.is_extra(rank) ? extra_lane(rank, n, output(rank)) : reduce_scatter_lane(core, rank, n));
}

/// Place 0 does most: the longer blocks are the first ones, and it serves an extra rank if there is
/// one.
Theory recursive_halving_all_reduce_theory(const Problem& problem) {
  const PowerOfTwoCore core(problem.size);
  const std::uint64_t places = std::uint64_t{1} << core.rounds;
  const std::uint64_t extra = core.extra;
  const std::uint64_t serves = extra > 0 ? 1 : 0;
  Theory theory{.blocks = static_cast<std::uint32_t>(places)};
  if (problem.size > 1) {
    theory.blocks_per_message = static_cast<std::uint32_t>(serves == 1 ? places : places / 2);
  }
  if (moves_nothing(problem)) return theory;
  const std::uint64_t count = problem.count;
  const BlockSizes sizes = block_sizes(problem, theory.blocks);
  theory.depth = 2 * (core.rounds + serves);
  theory.roundings = ceil_log2(problem.size);
  // Place 0 sends no half that begins beyond the last block with elements. Its sends on the way
  // back begin at block 0.
  theory.busiest.messages =
      core.rounds + static_cast<std::uint64_t>(std::bit_width(sizes.present - 1)) + serves;
  std::uint64_t groups = 0;  // elements in the groups of 1, 2, 4, … places from place 0 on
  theory.total.messages = 2 * extra;
  for (std::uint32_t round = 0; round < core.rounds; ++round) {
    const std::uint64_t group = std::uint64_t{1} << round;
    groups += group * (count / places) + std::min(group, count % places);
    // The other half's members all send a group that is not empty, and its own do on the way back.
    theory.total.messages += 2 * group * ((sizes.present + group - 1) / group);
  }
  theory.busiest.elems_sent = count + groups - sizes.largest + serves * count;
  theory.busiest.elems_reduced = groups + serves * count;
  theory.total.elems_sent = 2 * (places - 1 + extra) * count;
  theory.total.elems_reduced = (places - 1 + extra) * count;
  return theory;
}

Theory recursive_halving_reduce_scatter_theory(const Problem& problem) {
  const PowerOfTwoCore core(problem.size);
  const std::uint64_t n = problem.size;
  const std::uint64_t places = std::uint64_t{1} << core.rounds;
  const std::uint64_t extra = core.extra;
  const bool serves = extra > 0;
  Theory theory{.blocks = problem.size};
  if (n > 1) theory.blocks_per_message = static_cast<std::uint32_t>(serves ? n : n / 2);
  if (moves_nothing(problem)) return theory;
  const BlockSizes sizes = block_sizes(problem, problem.size);
  theory.depth = recursive_doubling_depth(problem.size);
  theory.roundings = ceil_log2(n);
  theory.busiest.messages = core.rounds + (serves ? 1 : 0);
  theory.total.messages = places * core.rounds + 2 * extra;
  // An extra rank sends all blocks; any other rank all but its own.
  theory.busiest.elems_sent = sizes.total - (serves ? 0 : sizes.smallest);
  theory.total.elems_reduced = (n - 1) * sizes.total;
  theory.total.elems_sent = n * sizes.total;
  for (Rank place = 0; place < places && !problem.block_counts.empty(); ++place) {
    theory.total.elems_sent -= problem.block_counts[core.rank_at(place)];
  }
  if (problem.block_counts.empty()) theory.total.elems_sent -= places * problem.count;
  theory.busiest.elems_reduced = largest_group_sum(problem, core) + (serves ? sizes.total : 0);
  return theory;
}

}  // namespace ccoll
