// SPDX-License-Identifier: Apache-2.0

/// Ring all-reduce: bandwidth-optimal, but its latency grows with n.
///
/// The buffer is cut into n blocks and every rank talks only to its two neighbours. First each
/// block travels once around the ring and gathers every rank's contribution, ending complete at the
/// rank of its own number. Then it travels around once more, so that all ranks have it. At any time
/// every rank sends one block and receives another, which keeps all links busy.
///
/// Rounds: 2(n-1). Bytes sent per rank: 2(n-1)/n × size. Any n, any count.
/// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", J. Parallel Distrib. Comput. 69 (2009); the order of the blocks is NCCL's.
/// Drawing: ring_all_reduce_4.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

/// A rank sends each block twice, but its own and the next rank's once. So the busiest rank is the
/// one where this pair is smallest. Blocks have count / n elements, the first count % n of them one
/// more. The pair is two short ones, unless there is only one.
std::uint64_t most_sent(std::uint64_t count, Rank n) {
  const std::uint64_t smallest_pair = 2 * (count / n) + (count % n + 1 == n ? 1 : 0);
  return 2 * count - smallest_pair;
}

}  // namespace

Program ring_all_reduce(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  const Rank next = ahead(rank, 1, n);
  const Rank previous = behind(rank, 1, n);

  Lane lane;
  // Lending the input is safe even in place. Block rank-1 is overwritten only when it comes back,
  // after every rank has added to it, and `next` added first.
  lane.steps.push_back({.local = {input(previous)}, .sends = {next}, .lend = Lend::always});
  for (Rank back = 2; back < n; ++back) {
    lane.steps.push_back(
        {.receives = {{previous}}, .local = {input(behind(rank, back, n))}, .sends = {next}});
  }
  lane.steps.push_back({.receives = {{previous}},
                        .local = {input(rank)},
                        .store = {output(rank)},
                        .sends = {next},
                        .finish = true,
                        .lend = Lend::always});
  for (Rank back = 1; back + 1 < n; ++back) {
    lane.steps.push_back({.receives = {{previous}},
                          .store = {output(behind(rank, back, n))},
                          .sends = {next},
                          .lend = Lend::always});
  }
  lane.steps.push_back({.receives = {{previous}}, .store = {output(next)}});

  return one_lane(problem, rank, n, std::move(lane));
}

Theory ring_all_reduce_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n};
  if (moves_nothing(problem)) return theory;
  const BlockSizes sizes = block_sizes(problem, n);
  theory.depth = 2 * (n - 1);
  theory.roundings = n - 1;
  theory.busiest = {.messages = most_sent(sizes.present, n),
                    .elems_sent = most_sent(sizes.total, n),
                    .elems_reduced = sizes.total - sizes.smallest};
  theory.total = {.messages = 2 * (n - 1) * sizes.present,
                  .elems_sent = 2 * (n - 1) * sizes.total,
                  .elems_reduced = (n - 1) * sizes.total};
  return theory;
}

}  // namespace ccoll
