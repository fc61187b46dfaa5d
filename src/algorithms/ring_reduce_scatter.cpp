// SPDX-License-Identifier: Apache-2.0

/// Ring reduce-scatter: the first half of the ring all-reduce.
///
/// Block b sets out at rank b+1 and travels once around the ring. Every rank that it passes adds
/// its own contribution, and the last one, rank b, keeps the sum. All n blocks travel at once, so
/// every link is busy in every round.
///
/// Rounds: n-1. Bytes sent per rank: all blocks but its own. Any n, blocks of any sizes.
/// Source: P. Patarasuk, X. Yuan, J. Parallel Distrib. Comput. 69 (2009).
/// Drawing: ring_reduce_scatter_4.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {

Program ring_reduce_scatter(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  const Rank next = ahead(rank, 1, n);
  const Rank previous = behind(rank, 1, n);

  Lane lane;
  // In place, only the own block is ever written, so any other may be lent.
  lane.steps.push_back({.local = {input(previous)}, .sends = {next}, .lend = Lend::always});
  for (Rank back = 2; back < n; ++back) {
    lane.steps.push_back(
        {.receives = {{previous}}, .local = {input(behind(rank, back, n))}, .sends = {next}});
  }
  lane.steps.push_back(
      {.receives = {{previous}}, .local = {input(rank)}, .store = {output(rank)}, .finish = true});

  return one_lane(problem, rank, n, std::move(lane));
}

Theory ring_reduce_scatter_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n};
  if (moves_nothing(problem)) return theory;
  const BlockSizes sizes = block_sizes(problem, n);
  theory.depth = n - 1;
  theory.roundings = n - 1;
  theory.busiest = {.messages = sizes.present - (sizes.smallest > 0 ? 1 : 0),
                    .elems_sent = sizes.total - sizes.smallest,
                    .elems_reduced = sizes.total - sizes.smallest};
  theory.total = {.messages = (n - 1) * sizes.present,
                  .elems_sent = (n - 1) * sizes.total,
                  .elems_reduced = (n - 1) * sizes.total};
  return theory;
}

}  // namespace ccoll
