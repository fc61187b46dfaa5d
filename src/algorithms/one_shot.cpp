// SPDX-License-Identifier: Apache-2.0

/// One-shot: every rank sends the others directly what they need, in one round.
///
/// One lane sends the rank's own data to every other rank; a second lane receives from all of them.
/// It combines everything in one pass if there is something to combine. Nothing is forwarded, so
/// the longest path has one message: the best there is for short buffers and few ranks. All-reduce
/// pays for that with n-1 times the whole buffer per rank.
///
/// Rounds: 1. Bytes sent per rank: (n-1) × size for all_reduce, (n-1) × its own block for
/// all_gather, all blocks but its own for reduce_scatter. Any n; n-1 links per rank.
/// Source: folklore; "one-shot" after A. Shah et al., "MSCCL++", arXiv 2504.09014 (2025).
/// Drawings: one_shot_all_reduce_4.txt, one_shot_all_gather_4.txt, one_shot_reduce_scatter_4.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

/// The other ranks, nearest ahead first, so that not all ranks send to rank 0 at once.
std::vector<Rank> others_ahead(Rank rank, Rank n) {
  std::vector<Rank> others;
  for (Rank distance = 1; distance < n; ++distance) others.push_back(ahead(rank, distance, n));
  return others;
}

std::vector<Receive> from_all_others(Rank rank, Rank n) {
  std::vector<Receive> receives;
  for (Rank peer = 0; peer < n; ++peer) {
    if (peer != rank) receives.push_back({.peer = peer, .lane = 0});
  }
  return receives;
}

}  // namespace

Program one_shot_all_reduce(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane send;
  // In place, the complete result overwrites the input at once; a slow peer may not have read it.
  send.steps.push_back(
      {.local = {input(0)}, .sends = others_ahead(rank, n), .lend = Lend::if_separate});
  Lane receive;
  receive.steps.push_back({.receives = from_all_others(rank, n),
                           .local = {input(0)},
                           .store = {output(0)},
                           .after = After{.lane = 0, .step = 0},
                           .finish = true});
  Program program = empty_program(problem, rank, 1);
  program.lanes = {std::move(send), std::move(receive)};
  return program;
}

Theory one_shot_all_reduce_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const Rank others = problem.size - 1;
  theory.depth = 1;
  theory.roundings = 1;
  theory.busiest = {.messages = others,
                    .elems_sent = others * problem.count,
                    .elems_repeated = repeated(problem.count, others),
                    .elems_reduced = others * problem.count};
  theory.total = {.messages = std::uint64_t{others} * problem.size,
                  .elems_sent = others * problem.count * problem.size,
                  .elems_repeated = repeated(problem.count, others) * problem.size,
                  .elems_reduced = others * problem.count * problem.size};
  return theory;
}

Program one_shot_all_gather(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane send;
  send.steps.push_back({.local = {input(rank)},
                        .store = {output(rank)},
                        .sends = others_ahead(rank, n),
                        .lend = Lend::always});
  Lane receive;
  for (Rank distance = 1; distance < n; ++distance) {
    const Rank peer = behind(rank, distance, n);
    receive.steps.push_back({.receives = {{.peer = peer, .lane = 0}}, .store = {output(peer)}});
  }
  Program program = empty_program(problem, rank, n);
  program.lanes = {std::move(send), std::move(receive)};
  return program;
}

Theory one_shot_all_gather_theory(const Problem& problem) {
  Theory theory{.blocks = problem.size};
  if (moves_nothing(problem)) return theory;
  const Rank others = problem.size - 1;
  const BlockSizes sizes = block_sizes(problem, problem.size);
  theory.depth = 1;
  theory.busiest = {.messages = others,
                    .elems_sent = others * sizes.largest,
                    .elems_repeated = repeated(sizes.largest, others)};
  theory.total = {.messages = others * sizes.present,
                  .elems_sent = others * sizes.total,
                  .elems_repeated = repeated(sizes.total, others)};
  return theory;
}

Program one_shot_reduce_scatter(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane send;
  for (const Rank peer : others_ahead(rank, n)) {
    // In place, only the own block is written, and it is never sent.
    send.steps.push_back({.local = {input(peer)}, .sends = {peer}, .lend = Lend::always});
  }
  Lane receive;
  receive.steps.push_back({.receives = from_all_others(rank, n),
                           .local = {input(rank)},
                           .store = {output(rank)},
                           .finish = true});
  Program program = empty_program(problem, rank, n);
  program.lanes = {std::move(send), std::move(receive)};
  return program;
}

Theory one_shot_reduce_scatter_theory(const Problem& problem) {
  Theory theory{.blocks = problem.size};
  if (moves_nothing(problem)) return theory;
  const Rank others = problem.size - 1;
  const BlockSizes sizes = block_sizes(problem, problem.size);
  theory.depth = 1;
  theory.roundings = 1;
  theory.busiest = {.messages = sizes.present - (sizes.smallest > 0 ? 1 : 0),
                    .elems_sent = sizes.total - sizes.smallest,
                    .elems_reduced = others * sizes.largest};
  theory.total = {.messages = others * sizes.present,
                  .elems_sent = others * sizes.total,
                  .elems_reduced = others * sizes.total};
  return theory;
}

}  // namespace ccoll
