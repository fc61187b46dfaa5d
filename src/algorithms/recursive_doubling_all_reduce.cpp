// SPDX-License-Identifier: Apache-2.0

/// Recursive doubling all-reduce: after round k, groups of 2^k ranks agree.
///
/// In every round a rank exchanges all that it has with a partner twice as far away as before. Both
/// add the same two numbers in the same order, so all ranks end with the same bits. If n is not a
/// power of two, the extra ranks first add their part to a neighbour's, and get the result from it
/// last. The whole buffer travels in every round, so this is for short ones.
///
/// Rounds: log2 n, or at most ⌊log2 n⌋ + 2. Bytes sent per rank: ⌈log2 n⌉ × size. Any n.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
/// Drawings: recursive_doubling_all_reduce_4.txt, recursive_doubling_all_reduce_5.txt

#include "algorithms/entries.hpp"
#include "algorithms/power_of_two_core.hpp"

namespace ccoll {
namespace {

Lane extra_lane(Rank rank) {
  // In place, the result overwrites the input; it contains the input, so that has been read.
  return {.steps = {{.local = {input(0)}, .sends = {rank + 1}, .lend = Lend::always},
                    {.receives = {{rank + 1}}, .store = {output(0)}}}};
}

/// Each exchange is two steps, a send and then a receive; a receive shares its step with the next
/// round's send. The next round overwrites the sent data, so they are not lent.
Lane core_lane(const PowerOfTwoCore& core, Rank rank) {
  Lane lane;
  const bool serves = core.serves_extra(rank);
  Step first{.local = {input(0)}, .sends = {core.partner(rank, 0)}, .lend = Lend::if_separate};
  if (serves) {
    first.receives = {{rank - 1}};
    first.store = {output(0)};
    first.lend = Lend::never;
  }
  lane.steps.push_back(std::move(first));
  for (std::uint32_t round = 0; round < core.rounds; ++round) {
    const bool last = round + 1 == core.rounds;
    Step step{.receives = {{core.partner(rank, round)}},
              .local = {round == 0 && !serves ? input(0) : output(0)},
              .store = {output(0)},
              .finish = last};
    if (!last) step.sends = {core.partner(rank, round + 1)};
    if (last && serves) {
      step.sends = {rank - 1};
      step.lend = Lend::always;
    }
    lane.steps.push_back(std::move(step));
  }
  return lane;
}

}  // namespace

Program recursive_doubling_all_reduce(const Problem& problem, Rank rank) {
  const PowerOfTwoCore core(problem.size);
  Program program = empty_program(problem, rank, 1);
  program.lanes.push_back(core.is_extra(rank) ? extra_lane(rank) : core_lane(core, rank));
  return program;
}

Theory recursive_doubling_all_reduce_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const std::uint64_t rounds = floor_log2(problem.size);
  const std::uint64_t core = std::uint64_t{1} << rounds;
  const std::uint64_t extra = problem.size - core;
  const std::uint64_t most = ceil_log2(problem.size);
  theory.depth = recursive_doubling_depth(problem.size);
  theory.roundings = static_cast<std::uint32_t>(most);
  theory.busiest = {
      .messages = most, .elems_sent = most * problem.count, .elems_reduced = most * problem.count};
  theory.total = {.messages = core * rounds + 2 * extra,
                  .elems_sent = (core * rounds + 2 * extra) * problem.count,
                  .elems_reduced = (core * rounds + extra) * problem.count};
  return theory;
}

}  // namespace ccoll
