// SPDX-License-Identifier: Apache-2.0

/// Chain: the ring's broadcast and reduce, opened at the root.
///
/// The ranks form a chain that begins at the root. Broadcast passes each window from rank to rank
/// down the chain, reduce passes partial sums up to the root. One window takes n-1 hops, but a
/// window may follow right behind the last. So long messages run at the speed of one link.
///
/// Rounds: n-1 for one window, one more for each further window. Bytes sent per rank: size.
/// Any n and root.
/// Source: J. Pješivac-Grbović et al., "Performance analysis of MPI collective operations",
/// Cluster Computing 10 (2007) ("pipeline").
/// Drawings: ring_broadcast_4.txt, ring_reduce_4.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {

Program ring_broadcast(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Step step{.store = {output(0)}, .lend = Lend::always};
  if (rank == problem.root) {
    step.local = {input(0)};
  } else {
    step.receives = {{behind(rank, 1, n)}};
  }
  if (ahead(rank, 1, n) != problem.root) step.sends = {ahead(rank, 1, n)};
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Program ring_reduce(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Step step{.local = {input(0)}};
  if (ahead(rank, 1, n) != problem.root) {
    step.receives = {{ahead(rank, 1, n)}};
  } else {
    step.lend = Lend::always;  // the end of the chain sends its own input, which no rank writes
  }
  if (rank == problem.root) {
    step.store = {output(0)};
    step.finish = true;
  } else {
    step.sends = {behind(rank, 1, n)};
  }
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Theory chain_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const Rank hops = problem.size - 1;
  theory.depth = hops;
  theory.busiest = {.messages = 1, .elems_sent = problem.count};
  theory.total = {.messages = hops, .elems_sent = hops * problem.count};
  if (problem.kind == Kind::reduce) {
    theory.roundings = hops;
    theory.busiest.elems_reduced = problem.count;
    theory.total.elems_reduced = hops * problem.count;
  }
  return theory;
}

}  // namespace ccoll
