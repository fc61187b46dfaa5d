// SPDX-License-Identifier: Apache-2.0

/// Pairwise all-to-all: in round r everyone sends to the rank r ahead of it.
///
/// Every rank has a block for every other, and nothing can be combined, so all that matters is that
/// nobody is asked for two things at once. In round r, rank i sends to i+r and receives from i-r:
/// each round is a permutation. Sending and receiving are two lanes, so that a slow sender does not
/// keep a rank from sending on.
///
/// Rounds: n-1, none waiting for another. Bytes sent per rank: (n-1) blocks. Any n; not in place.
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
/// Drawing: pairwise_all_to_all_4.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

Program make(const Problem& problem, Rank rank) {
  const Rank n = problem.size;
  if (n == 1) return program_alone(problem);
  Lane send;
  Lane receive;
  for (Rank round = 1; round < n; ++round) {
    const Rank to = ahead(rank, round, n);
    send.steps.push_back({.local = {input(to)}, .sends = {to}, .lend = Lend::always});
    const Rank from = behind(rank, round, n);
    receive.steps.push_back({.receives = {{.peer = from, .lane = 0}}, .store = {output(from)}});
  }
  // Last, when the first messages are under way.
  send.steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  Program program = empty_program(problem, rank, n);
  program.lanes = {std::move(send), std::move(receive)};
  return program;
}

Theory theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  Theory theory{.blocks = problem.size};
  if (moves_nothing(problem)) return theory;
  theory.depth = 1;
  theory.busiest = {.messages = n - 1, .elems_sent = (n - 1) * problem.count};
  theory.total = {.messages = n * (n - 1), .elems_sent = n * (n - 1) * problem.count};
  return theory;
}

}  // namespace

CatalogueEntry pairwise_all_to_all() {
  return {Kind::all_to_all,
          Algorithm::pairwise,
          make,
          theory,
          true,
          "Thakur, Rabenseifner and Gropp 2005"};
}

}  // namespace ccoll
