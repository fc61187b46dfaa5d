// SPDX-License-Identifier: Apache-2.0

/// Pairwise all-to-all: in round r every rank sends to the rank r ahead of it.
///
/// Every rank has a block for every other, and nothing can be combined. So it only matters that no
/// rank gets two requests at once. In round r, rank i sends to i+r and receives from i-r: each
/// round is a permutation. Sending, receiving and copying the own block have a lane each. So a slow
/// sender does not stop a rank from sending, and blocks that have arrived are taken before the own
/// block is copied.
///
/// Rounds: n-1, none waiting for another. Bytes sent per rank: (n-1) blocks. Any n, blocks of any
/// sizes, which only their sender and receiver know; not in place.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
/// Drawing: pairwise_all_to_all_4.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

/// Theory for ragged blocks. Row i of the matrix of sizes is what rank i sends, to itself too.
Theory ragged(const Problem& problem, Theory theory) {
  const std::size_t n = problem.size;
  for (std::size_t from = 0; from < n; ++from) {
    Load sent;
    for (std::size_t to = 0; to < n; ++to) {
      const std::uint64_t elems = problem.block_counts[from * n + to];
      if (from == to || elems == 0) continue;
      ++sent.messages;
      sent.elems_sent += elems;
    }
    theory.busiest.messages = std::max(theory.busiest.messages, sent.messages);
    theory.busiest.elems_sent = std::max(theory.busiest.elems_sent, sent.elems_sent);
    theory.total.messages += sent.messages;
    theory.total.elems_sent += sent.elems_sent;
  }
  theory.depth = theory.total.messages > 0 ? 1 : 0;
  return theory;
}

}  // namespace

Program pairwise_all_to_all(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  Lane send;
  Lane receive;
  Lane own;
  for (Rank round = 1; round < n; ++round) {
    const Rank to = ahead(rank, round, n);
    send.steps.push_back({.local = {input(to)}, .sends = {to}, .lend = Lend::always});
    const Rank from = behind(rank, round, n);
    receive.steps.push_back({.receives = {{.peer = from, .lane = 0}}, .store = {output(from)}});
  }
  own.steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  Program program = empty_program(problem, rank, n);
  program.lanes = {std::move(send), std::move(receive), std::move(own)};
  return program;
}

Theory pairwise_all_to_all_theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  Theory theory{.blocks = problem.size};
  if (!problem.block_counts.empty()) return ragged(problem, theory);
  if (moves_nothing(problem)) return theory;
  theory.depth = 1;
  theory.busiest = {.messages = n - 1, .elems_sent = (n - 1) * problem.count};
  theory.total = {.messages = n * (n - 1), .elems_sent = n * (n - 1) * problem.count};
  return theory;
}

}  // namespace ccoll
