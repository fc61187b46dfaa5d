// SPDX-License-Identifier: Apache-2.0

/// The order in which each algorithm combines contributions. Tests compare these answers with the
/// programs.

#include "algorithms/algorithms.hpp"

namespace ccoll {
namespace {

bool combines_at_once(const Problem& problem, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::one_shot:
    case Algorithm::two_shot:
    case Algorithm::linear:
      return true;
    default:
      return problem.size <= 2;
  }
}

bool combines_by_rank(const Problem& problem, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::recursive_doubling:
      return problem.kind == Kind::all_reduce;  // groups of ranks that double, next to each other
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

}  // namespace

bool keeps_order(const Problem& problem, Algorithm algorithm, CombineOrder order) {
  if (order == CombineOrder::any || !reduces(problem.kind)) return true;
  if (combines_at_once(problem, algorithm)) return true;
  return order == CombineOrder::by_rank && combines_by_rank(problem, algorithm);
}

}  // namespace ccoll
