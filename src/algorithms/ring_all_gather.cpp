// SPDX-License-Identifier: Apache-2.0

/// Ring all-gather: the second half of the ring all-reduce.
///
/// Every rank's block travels once around the ring. In each round a rank stores the block that it
/// has just received and passes it on from there. Nothing is ever sent twice to the same rank.
///
/// Rounds: n-1. Bytes sent per rank: all blocks but the next rank's. Any n, blocks of any sizes.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
/// Operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005).
/// Drawing: ring_all_gather_4.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {

Program ring_all_gather(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  const Rank next = ahead(rank, 1, n);
  const Rank previous = behind(rank, 1, n);

  Lane lane;
  // Every block of the output is written once, so all of them may be lent.
  lane.steps.push_back(
      {.local = {input(rank)}, .store = {output(rank)}, .sends = {next}, .lend = Lend::always});
  for (Rank back = 1; back + 1 < n; ++back) {
    lane.steps.push_back({.receives = {{previous}},
                          .store = {output(behind(rank, back, n))},
                          .sends = {next},
                          .lend = Lend::always});
  }
  lane.steps.push_back({.receives = {{previous}}, .store = {output(next)}});

  return one_lane(problem, rank, n, std::move(lane));
}

Theory ring_all_gather_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n};
  if (moves_nothing(problem)) return theory;
  const BlockSizes sizes = block_sizes(problem, n);
  theory.depth = n - 1;
  theory.busiest = {.messages = sizes.present - (sizes.smallest > 0 ? 1 : 0),
                    .elems_sent = sizes.total - sizes.smallest};
  theory.total = {.messages = (n - 1) * sizes.present, .elems_sent = (n - 1) * sizes.total};
  return theory;
}

}  // namespace ccoll
