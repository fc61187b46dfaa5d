// SPDX-License-Identifier: Apache-2.0

/// Root collects: all data go to rank 0 and come back from there.
///
/// Every tutorial starts with it, and it is the measure of what other algorithms gain. Rank 0
/// combines or collects what the others send, and then sends each of them the result or its block.
/// Rank 0's links and its adding are the limit, while all the others wait.
///
/// Rounds: 2. Bytes sent by rank 0: (n-1) × size for all_reduce, (n-1) × all blocks for all_gather,
/// all blocks but its own for reduce_scatter; by the others: what they contribute. Any n, blocks of
/// any sizes.
/// Source: folklore; in MPI's words reduce + broadcast, gather + broadcast, reduce + scatter.
/// Drawings: root_collects_all_reduce_4.txt, root_collects_all_gather_4.txt,
/// root_collects_reduce_scatter_4.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

constexpr Rank kRoot = 0;

std::vector<Rank> all_others(Rank n) {
  std::vector<Rank> others;
  for (Rank rank = 1; rank < n; ++rank) others.push_back(rank);
  return others;
}

/// Sends the contribution and stores what comes back, in two lanes: the next window is sent before
/// the last one has come back. In place, the result overwrites only what rank 0 has read.
Program other_program(const Problem& problem, Rank rank, std::uint32_t blocks, Operand contribution,
                      Operand result) {
  Program program = empty_program(problem, rank, blocks);
  program.lanes.resize(2);
  program.lanes[0].steps.push_back(
      {.local = {contribution}, .sends = {kRoot}, .lend = Lend::always});
  program.lanes[1].steps.push_back({.receives = {{.peer = kRoot, .lane = 0}}, .store = {result}});
  return program;
}

Step combine_all(Rank n, Operand own) {
  Step step{.local = {own}, .finish = true};
  for (const Rank peer : all_others(n)) step.receives.push_back({peer});
  return step;
}

}  // namespace

Program root_collects_all_reduce(const Problem& problem, Rank rank) {
  if (rank != kRoot) return other_program(problem, rank, 1, input(0), output(0));
  Step step = combine_all(problem.size, input(0));
  step.store = {output(0)};
  step.sends = all_others(problem.size);
  step.lend = Lend::always;
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Program root_collects_all_gather(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  if (rank != kRoot) return other_program(problem, rank, n, input(rank), output(0, n));
  Lane lane;
  lane.steps.push_back({.local = {input(kRoot)}, .store = {output(kRoot)}});
  for (const Rank peer : all_others(n)) {
    lane.steps.push_back({.receives = {{peer}}, .store = {output(peer)}});
  }
  lane.steps.push_back({.local = {output(0, n)}, .sends = all_others(n), .lend = Lend::always});
  return one_lane(problem, rank, n, std::move(lane));
}

Program root_collects_reduce_scatter(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  if (rank != kRoot) return other_program(problem, rank, n, input(0, n), output(rank));
  Lane lane{.scratch_block = 1, .scratch_blocks = n - 1};
  Step step = combine_all(n, input(0, n));
  step.store = {output(kRoot), scratch(1, n - 1)};
  lane.steps.push_back(std::move(step));
  // The next window overwrites scratch, so it is not lent.
  for (const Rank peer : all_others(n)) {
    lane.steps.push_back({.local = {scratch(peer)}, .sends = {peer}});
  }
  return one_lane(problem, rank, n, std::move(lane));
}

Theory root_collects_all_reduce_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const std::uint64_t others = problem.size - 1;
  theory.depth = 2;
  theory.roundings = 1;
  theory.busiest = {.messages = others,
                    .elems_sent = others * problem.count,
                    .elems_repeated = repeated(problem.count, others),
                    .elems_reduced = others * problem.count};
  theory.total = {.messages = 2 * others,
                  .elems_sent = 2 * others * problem.count,
                  .elems_repeated = repeated(problem.count, others),
                  .elems_reduced = others * problem.count};
  return theory;
}

Theory root_collects_all_gather_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n, .blocks_per_message = n};
  if (moves_nothing(problem)) return theory;
  const std::uint64_t others = n - 1;
  const BlockSizes sizes = block_sizes(problem, n);
  const std::uint64_t own = block_elems(problem, n, kRoot);
  theory.depth = 2;
  theory.busiest = {.messages = others,
                    .elems_sent = others * sizes.total,
                    .elems_repeated = repeated(sizes.total, others)};
  theory.total = {.messages = sizes.present - (own > 0 ? 1 : 0) + others,
                  .elems_sent = n * sizes.total - own,
                  .elems_repeated = repeated(sizes.total, others)};
  return theory;
}

Theory root_collects_reduce_scatter_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n, .blocks_per_message = n};
  if (moves_nothing(problem)) return theory;
  const std::uint64_t others = n - 1;
  const BlockSizes sizes = block_sizes(problem, n);
  const std::uint64_t own = block_elems(problem, n, kRoot);
  const std::uint64_t results = sizes.present - (own > 0 ? 1 : 0);
  theory.depth = 2;
  theory.roundings = 1;
  theory.busiest = {.messages = std::max<std::uint64_t>(results, 1),
                    .elems_sent = sizes.total,
                    .elems_reduced = others * sizes.total};
  theory.total = {.messages = others + results,
                  .elems_sent = n * sizes.total - own,
                  .elems_reduced = others * sizes.total};
  return theory;
}

}  // namespace ccoll
