// SPDX-License-Identifier: Apache-2.0

/// Cost of binomial trees. Block v (counted from the root) travels one hop per set bit of v.

#include <algorithm>
#include <bit>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

/// Number of set bits in 0, 1, …, size-1 together.
std::uint64_t set_bits_below(std::uint64_t size) {
  std::uint64_t bits = 0;
  for (std::uint32_t bit = 0; bit < ceil_log2(size); ++bit) bits += numbers_with_bit(bit, size);
  return bits;
}

/// Ranks in the largest subtree below the root: the topmost child's, which may be cut short, or the
/// whole one next to it.
std::uint64_t largest_subtree(std::uint64_t size) {
  if (size == 1) return 0;
  const std::uint64_t top = std::bit_floor(size - 1);
  return std::max(size - top, top / 2);
}

}  // namespace

Theory binomial_theory_whole(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const std::uint64_t edges = problem.size - 1;
  const std::uint64_t children = ceil_log2(problem.size);
  theory.depth = floor_log2(problem.size);
  theory.total = {.messages = edges, .elems_sent = edges * problem.count};
  if (problem.kind == Kind::broadcast) {
    // One rank in two has children, and sends to all of its own in one step.
    theory.busiest = {.messages = children,
                      .elems_sent = children * problem.count,
                      .elems_repeated = repeated(problem.count, children)};
    theory.total.elems_repeated = (edges - problem.size / 2) * problem.count;
  } else {
    theory.roundings = floor_log2(problem.size);
    theory.busiest = {
        .messages = 1, .elems_sent = problem.count, .elems_reduced = children * problem.count};
    theory.total.elems_reduced = edges * problem.count;
  }
  return theory;
}

Theory binomial_theory_blocks(const Problem& problem) {
  const std::uint64_t n = problem.size;
  const std::uint64_t largest = largest_subtree(n);
  Theory theory{.blocks = problem.size};
  theory.blocks_per_message = static_cast<std::uint32_t>(std::max<std::uint64_t>(largest, 1));
  if (moves_nothing(problem)) return theory;
  theory.depth = floor_log2(n);
  theory.busiest.messages = problem.kind == Kind::scatter ? ceil_log2(n) : 1;
  theory.total.messages = n - 1;
  theory.busiest.elems_sent = (problem.kind == Kind::scatter ? n - 1 : largest) * problem.count;
  theory.total.elems_sent = set_bits_below(n) * problem.count;
  return theory;
}

}  // namespace ccoll
