// SPDX-License-Identifier: Apache-2.0

/// Bruck's algorithms: ⌈log2 n⌉ messages per rank for any n, at distances 1, 2, 4, …
///
/// All-gather: in round k a rank sends all that it holds to the rank 2^k behind and gets as much
/// from the rank 2^k ahead. So it always holds the blocks from its own number on, mod n.
/// All-to-all: a block for the rank d ahead travels 2^k ahead in round k if bit k of d is set. All
/// such blocks share one message. On its way a block waits in scratch, under the number d. Block
/// numbers are taken mod n, which makes the paper's rotations unnecessary.
///
/// Rounds: ⌈log2 n⌉. Bytes sent per rank: n-1 blocks for all_gather; for all_to_all as many blocks
/// as the numbers below n have set bits, about (n/2) log2 n: for small blocks. Any n; all_gather
/// takes blocks of any sizes, all_to_all equal ones.
/// Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for
/// all-to-all communications in multiport message-passing systems", IEEE Trans. Parallel Distrib.
/// Syst. 8 (1997).
/// Drawings: bruck_all_gather_5.txt, bruck_all_to_all_5.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

/// Blocks that all_gather's round `round` moves: all held, but at most as many as are missing.
std::uint32_t blocks_moved(std::uint32_t round, Rank n) {
  return std::min(1U << round, n - (1U << round));
}

/// Bit numbers of a distance that is not 0: the first and the last round in which it travels.
std::uint32_t first_round(Rank distance) {
  return static_cast<std::uint32_t>(std::countr_zero(distance));
}

/// Adds each rank's load of a ragged all_gather in O(n log n).
void add_ragged_loads(const Problem& problem, Theory& theory) {
  const Rank n = problem.size;
  std::vector<std::uint64_t> before(2 * std::size_t{n} + 1, 0);  // twice around
  for (std::size_t i = 0; i < 2 * std::size_t{n}; ++i) {
    before[i + 1] = before[i] + problem.block_counts[i % n];
  }
  for (Rank rank = 0; rank < n; ++rank) {
    std::uint64_t sent = 0;
    for (std::uint32_t round = 0; round < ceil_log2(n); ++round) {
      sent += before[rank + blocks_moved(round, n)] - before[rank];
    }
    theory.busiest.elems_sent = std::max(theory.busiest.elems_sent, sent);
    theory.total.elems_sent += sent;
  }
}

}  // namespace

Program bruck_all_gather(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane lane;
  // Every block of the output is written once, so all of them may be lent.
  lane.steps.push_back({.local = {input(rank)},
                        .store = {output(rank)},
                        .sends = {behind(rank, 1, n)},
                        .lend = Lend::always});
  for (std::uint32_t round = 0; round < ceil_log2(n); ++round) {
    const Rank distance = 1U << round;
    const std::uint32_t moved = blocks_moved(round, n);
    if (round > 0) {
      lane.steps.push_back({.local = {output(rank, moved)},
                            .sends = {behind(rank, distance, n)},
                            .lend = Lend::always});
    }
    const Rank from = ahead(rank, distance, n);
    lane.steps.push_back({.receives = {{from}}, .store = {output(from, moved)}});
  }
  return one_lane(problem, rank, n, std::move(lane));
}

Theory bruck_all_gather_theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  const std::uint32_t rounds = ceil_log2(n);
  Theory theory{.blocks = problem.size};
  for (std::uint32_t round = 0; round < rounds; ++round) {
    theory.blocks_per_message =
        std::max(theory.blocks_per_message, blocks_moved(round, problem.size));
  }
  if (moves_nothing(problem)) return theory;
  theory.depth = rounds;
  theory.busiest.messages = rounds;
  theory.total.messages = n * rounds;
  if (!problem.block_counts.empty()) {
    add_ragged_loads(problem, theory);
    return theory;
  }
  theory.busiest.elems_sent = (n - 1) * problem.count;
  theory.total.elems_sent = n * (n - 1) * problem.count;
  return theory;
}

Program bruck_all_to_all(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane lane;
  // Blocks for distances with one bit travel once and never wait; distance 3 is the first to wait.
  if (n > 3) {
    lane.scratch_block = 3;
    lane.scratch_blocks = n - 3;
  }
  for (std::uint32_t round = 0; round < ceil_log2(n); ++round) {
    const Rank hop = 1U << round;
    Step send{.sends = {ahead(rank, hop, n)}};
    Step receive{.receives = {{behind(rank, hop, n)}}};
    for (Rank distance = hop; distance < n; ++distance) {
      if ((distance & hop) == 0) continue;
      const bool sets_out = first_round(distance) == round;
      send.local.push_back(sets_out ? input(ahead(rank, distance, n)) : scratch(distance));
      const bool arrives = floor_log2(distance) == round;
      receive.store.push_back(arrives ? output(behind(rank, distance, n)) : scratch(distance));
    }
    lane.steps.push_back(std::move(send));
    lane.steps.push_back(std::move(receive));
  }
  lane.steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  return one_lane(problem, rank, n, std::move(lane));
}

Theory bruck_all_to_all_theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  const std::uint64_t rounds = ceil_log2(n);
  Theory theory{.blocks = problem.size};
  std::uint64_t moved = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::uint64_t blocks = numbers_with_bit(round, n);
    moved += blocks;
    theory.blocks_per_message =
        std::max(theory.blocks_per_message, static_cast<std::uint32_t>(blocks));
  }
  if (moves_nothing(problem)) return theory;
  theory.depth = rounds;
  theory.busiest = {.messages = rounds, .elems_sent = moved * problem.count};
  theory.total = {.messages = n * rounds, .elems_sent = n * moved * problem.count};
  return theory;
}

}  // namespace ccoll
