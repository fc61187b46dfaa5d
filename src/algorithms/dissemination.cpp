// SPDX-License-Identifier: Apache-2.0

/// Dissemination barrier: in ⌈log2 n⌉ rounds every rank has heard from every other.
///
/// In round k every rank passes all that it knows to the rank 2^k ahead of it, and hears from the
/// rank 2^k behind. Its knowledge doubles with every round, so after ⌈log2 n⌉ rounds it knows that
/// all have come. If n is not a power of two, some ranks are heard of twice. That is harmless: the
/// byte that travels is the same from all.
///
/// Rounds: ⌈log2 n⌉. Bytes sent per rank: ⌈log2 n⌉. Any n.
/// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", Int. J.
/// Parallel Programming 17 (1988).
/// Drawing: dissemination_barrier_5.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {

Program dissemination_barrier(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  const std::uint32_t rounds = ceil_log2(n);
  Lane lane;
  // A round's receive and the next round's send are one step: it sends what it has just received.
  lane.steps.push_back({.local = {input(0)}, .sends = {ahead(rank, 1, n)}});
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const bool last = round + 1 == rounds;
    Step step{.receives = {{behind(rank, 1U << round, n)}},
              .local = {round == 0 ? input(0) : output(0)},
              .store = {output(0)},
              .finish = last};
    if (!last) step.sends = {ahead(rank, 2U << round, n)};
    lane.steps.push_back(std::move(step));
  }
  return one_lane(problem, rank, 1, std::move(lane));
}

Theory dissemination_barrier_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const std::uint64_t rounds = ceil_log2(problem.size);
  theory.depth = rounds;
  theory.roundings = static_cast<std::uint32_t>(rounds);
  theory.busiest = {.messages = rounds,
                    .elems_sent = rounds * problem.count,
                    .elems_reduced = rounds * problem.count};
  theory.total = {.messages = rounds * problem.size,
                  .elems_sent = rounds * problem.count * problem.size,
                  .elems_reduced = rounds * problem.count * problem.size};
  return theory;
}

}  // namespace ccoll
