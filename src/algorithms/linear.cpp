// SPDX-License-Identifier: Apache-2.0

/// Linear: the root talks to all ranks itself.
///
/// Broadcast and scatter are n-1 sends of the root, gather n-1 receives; reduce combines all n
/// contributions in one step. No other rank has more than one message, nothing is forwarded and no
/// scratch is needed. That is the best there is for few ranks. The root's links are the limit.
///
/// Rounds: 1. Bytes sent by the root: (n-1) × size for broadcast, all blocks but its own for
/// scatter; by the others: their contribution for reduce and gather. Any n and root, blocks of any
/// sizes.
/// Source: the definition of the operations (MPI: A Message-Passing Interface Standard, ch. 6).
/// Drawings: linear_broadcast_4.txt, linear_reduce_4.txt, linear_gather_4.txt, linear_scatter_4.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {

Program linear_broadcast(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Step step{.store = {output(0)}, .lend = Lend::always};
  if (rank == problem.root) {
    step.local = {input(0)};
    for (Rank distance = 1; distance < n; ++distance) {
      step.sends.push_back(ahead(rank, distance, n));
    }
  } else {
    step.receives = {{problem.root}};
  }
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Program linear_reduce(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Step step{.local = {input(0)}};
  if (rank == problem.root) {
    for (Rank peer = 0; peer < n; ++peer) {
      if (peer != rank) step.receives.push_back({peer});
    }
    step.store = {output(0)};
    step.finish = true;
  } else {
    step.sends = {problem.root};
    step.lend = Lend::always;
  }
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Program linear_gather(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  if (rank != problem.root) {
    Step send{.local = {input(rank)}, .sends = {problem.root}, .lend = Lend::always};
    return one_lane(problem, rank, n, {.steps = {std::move(send)}});
  }
  std::vector<Step> steps{{.local = {input(rank)}, .store = {output(rank)}}};
  for (Rank distance = 1; distance < n; ++distance) {
    const Rank peer = ahead(rank, distance, n);
    steps.push_back({.receives = {{peer}}, .store = {output(peer)}});
  }
  return one_lane(problem, rank, n, {.steps = std::move(steps)});
}

Program linear_scatter(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  if (rank != problem.root) {
    Step receive{.receives = {{problem.root}}, .store = {output(rank)}};
    return one_lane(problem, rank, n, {.steps = {std::move(receive)}});
  }
  std::vector<Step> steps;
  for (Rank distance = 1; distance < n; ++distance) {
    const Rank peer = ahead(rank, distance, n);
    steps.push_back({.local = {input(peer)}, .sends = {peer}, .lend = Lend::always});
  }
  steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  return one_lane(problem, rank, n, {.steps = std::move(steps)});
}

Theory linear_theory_whole(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const Rank others = problem.size - 1;
  theory.depth = 1;
  theory.total = {.messages = others, .elems_sent = others * problem.count};
  if (problem.kind == Kind::broadcast) {
    theory.total.elems_repeated = repeated(problem.count, others);
    theory.busiest = theory.total;
  } else {
    theory.roundings = 1;
    theory.total.elems_reduced = others * problem.count;
    theory.busiest = {
        .messages = 1, .elems_sent = problem.count, .elems_reduced = others * problem.count};
  }
  return theory;
}

Theory linear_theory_blocks(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n};
  if (moves_nothing(problem)) return theory;
  const BlockSizes sizes = block_sizes(problem, n);
  const std::uint64_t own = block_elems(problem, n, problem.root);
  theory.depth = sizes.total > own ? 1 : 0;
  theory.total = {.messages = sizes.present - (own > 0 ? 1 : 0), .elems_sent = sizes.total - own};
  if (problem.kind == Kind::scatter) {
    theory.busiest = theory.total;
    return theory;
  }
  std::uint64_t largest = sizes.largest;
  if (!problem.block_counts.empty()) {
    largest = 0;
    for (Rank rank = 0; rank < n; ++rank) {
      if (rank != problem.root) largest = std::max(largest, problem.block_counts[rank]);
    }
  }
  theory.busiest = {.messages = theory.depth, .elems_sent = largest};
  return theory;
}

}  // namespace ccoll
