// SPDX-License-Identifier: Apache-2.0

/// Binary tree: logarithmic latency with at most three links per rank.
///
/// All-reduce adds up the tree, from the leaves to the root, and sends the result down again;
/// reduce and broadcast are its halves. The way up and the way down are two lanes joined at the
/// root, so that the next window climbs while the last one descends. Half of the ranks are leaves
/// whose sending capacity lies idle on the way down: the double tree puts it to use.
///
/// Rounds: 2⌈log2 n⌉ for all_reduce, ⌈log2 n⌉ for the others. Bytes sent per rank: up to 3 × size
/// for all_reduce, 2 × size for broadcast, size for reduce. Any n and root.
/// Source: the tree is NCCL's (src/graph/trees.cc), after P. Sanders, J. Speck, J. L. Träff,
/// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35
/// (2009).
/// Drawings: tree_all_reduce_7.txt, tree_broadcast_7.txt, tree_reduce_7.txt

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"
#include "algorithms/trees/tree_lanes.hpp"

namespace ccoll {
namespace {

/// The tree with rank 0 of the rule at `root`, where the row of ranks begins.
TreeNode tree_from(Rank root, Rank rank, Rank n) {
  TreeNode node = binary_tree(behind(rank, root, n), n);
  if (node.parent) node.parent = ahead(*node.parent, root, n);
  for (Rank& child : node.children) child = ahead(child, root, n);
  return node;
}

}  // namespace

Program tree_all_reduce(const Problem& problem, Rank rank) {
  return all_reduce_over(binary_tree(rank, problem.size), problem, rank);
}

Program tree_reduce(const Problem& problem, Rank rank) {
  return one_lane(problem, rank, 1, lane_up(tree_from(problem.root, rank, problem.size), 0, 0));
}

Program tree_broadcast(const Problem& problem, Rank rank) {
  const TreeNode node = tree_from(problem.root, rank, problem.size);
  return one_lane(problem, rank, 1, lane_down(node, 0, 0, input(0)));
}

Theory tree_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const Rank n = problem.size;
  const std::uint64_t edges = n - 1;
  const bool up = problem.kind != Kind::broadcast;
  const bool down = problem.kind != Kind::reduce;
  theory.depth = std::uint64_t{tree_height(n)} * (up && down ? 2 : 1);
  // Two or three ranks are a line. Its middle, if any, sends once up and once down.
  if (up && down) {
    theory.busiest.messages = n >= 4 ? 3 : n - 1;
  } else {
    theory.busiest.messages = down ? most_children(n) : 1;
  }
  theory.busiest.elems_sent = theory.busiest.messages * problem.count;
  theory.total.messages = edges * (up && down ? 2 : 1);
  theory.total.elems_sent = theory.total.messages * problem.count;
  if (down) {
    theory.busiest.elems_repeated = repeated(problem.count, most_children(n));
    theory.total.elems_repeated = forks(n) * problem.count;
  }
  if (up) {
    theory.roundings = tree_height(n);
    theory.busiest.elems_reduced = most_children(n) * problem.count;
    theory.total.elems_reduced = edges * problem.count;
  }
  return theory;
}

}  // namespace ccoll
