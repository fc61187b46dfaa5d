// SPDX-License-Identifier: Apache-2.0

/// Two-shot all-reduce: a direct reduce-scatter and a direct all-gather.
///
/// The buffer is cut into n blocks. In the first round every rank sends block b straight to rank b,
/// which combines all n contributions in one pass. In the second, rank b sends the result to all.
/// It sends as many bytes as a ring, in two rounds instead of 2(n-1), but needs n-1 links per rank.
///
/// Rounds: 2. Bytes sent per rank: 2(n-1)/n × size. Any n, any count.
/// Source: R. Thakur et al. 2005 (as Rabenseifner's algorithm with direct exchanges); "two-shot"
/// after A. Shah et al., "MSCCL++", arXiv 2504.09014 (2025).
/// Drawing: two_shot_all_reduce_4.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

constexpr std::uint16_t kSendLane = 0;
constexpr std::uint16_t kReduceLane = 1;

}  // namespace

Program two_shot_all_reduce(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane send;
  Step reduce{
      .local = {input(rank)}, .store = {output(rank)}, .finish = true, .lend = Lend::always};
  Lane receive;
  for (Rank distance = 1; distance < n; ++distance) {
    const Rank to = ahead(rank, distance, n);
    // In place, the block's result overwrites it; `to` makes that after it has read this.
    send.steps.push_back({.local = {input(to)}, .sends = {to}, .lend = Lend::always});
    reduce.sends.push_back(to);
    const Rank from = behind(rank, distance, n);
    receive.steps.push_back(
        {.receives = {{.peer = from, .lane = kReduceLane}}, .store = {output(from)}});
  }
  for (Rank peer = 0; peer < n; ++peer) {
    if (peer != rank) reduce.receives.push_back({.peer = peer, .lane = kSendLane});
  }
  Program program = empty_program(problem, rank, n);
  program.lanes = {std::move(send), {.steps = {std::move(reduce)}}, std::move(receive)};
  return program;
}

Theory two_shot_all_reduce_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n};
  if (moves_nothing(problem)) return theory;
  const BlockSizes sizes = block_sizes(problem, n);
  theory.depth = 2;
  theory.roundings = 1;
  // The busiest rank sends all blocks but its own, and then its own n-1 times.
  theory.busiest = {.messages = sizes.present + (n - 2),
                    .elems_sent = sizes.total + (n - 2) * sizes.largest,
                    .elems_repeated = repeated(sizes.largest, n - 1),
                    .elems_reduced = (n - 1) * sizes.largest};
  theory.total = {.messages = 2 * (n - 1) * sizes.present,
                  .elems_sent = 2 * (n - 1) * sizes.total,
                  .elems_repeated = repeated(sizes.total, n - 1),
                  .elems_reduced = (n - 1) * sizes.total};
  return theory;
}

}  // namespace ccoll
