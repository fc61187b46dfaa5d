// SPDX-License-Identifier: Apache-2.0

/// Which algorithms combine contributions in rank order only, as an operation that does not commute
/// needs: whatever is combined is what neighbouring stretches of ranks have put in, the lower one
/// first. Tests hold these answers to what the programs do.

#include "algorithms/algorithms.hpp"

namespace ccoll {

bool combines_in_rank_order(const Problem& problem, Algorithm algorithm) {
  // A step takes its sources in rank order, so two ranks cannot be confused.
  if (problem.size <= 2) return true;
  switch (algorithm) {
    case Algorithm::one_shot:
    case Algorithm::two_shot:
    case Algorithm::linear:
      return true;  // everything in one step
    case Algorithm::recursive_doubling:
      return problem.kind == Kind::all_reduce;  // pairs, then pairs of pairs, beside each other
    case Algorithm::binomial:
      return problem.root == 0;  // subtrees are stretches of ranks counted from the root
    case Algorithm::tree:
      // A search tree: lower ranks to the left, counted from the root.
      return problem.kind == Kind::all_reduce || problem.root == 0;
    case Algorithm::ring:
      return problem.kind == Kind::reduce && problem.root == 0;  // a chain up to the last rank
    default:
      return false;
  }
}

}  // namespace ccoll
