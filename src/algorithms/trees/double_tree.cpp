// SPDX-License-Identifier: Apache-2.0

/// Double binary tree: the latency of a tree at the bandwidth of a ring.
///
/// The buffer is cut into two blocks and each travels through a tree of its own. The trees
/// complement each other: an inner node of one is a leaf in the other (except rank 0 if n is odd).
/// So all ranks send and receive about the same amount. Rooted operations put the root above two
/// such trees of all other ranks, and so feed each with half of the buffer. (With two ranks, one
/// tree gets all of it.)
///
/// Rounds: 2⌈log2 n⌉ for all_reduce, 1 + ⌈log2 (n-1)⌉ for the others. Bytes sent per rank: up to
/// 2 × size for all_reduce, size for the others. Any n and root. At most four peers per rank,
/// except for rank 0 if n is odd. Source: P. Sanders, J. Speck, J. L. Träff, Parallel Computing 35
/// (2009); the trees are NCCL's (src/graph/trees.cc). Drawings: double_tree_all_reduce_7.txt,
/// double_tree_broadcast_7.txt, double_tree_reduce_7.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"
#include "algorithms/trees/tree_lanes.hpp"

namespace ccoll {
namespace {

constexpr std::uint32_t kTrees = 2;

/// With two ranks both trees below the root are the same link. Half of the buffer then gains
/// nothing, and costs a message and a link more.
std::uint32_t trees_below_root(Rank size) { return size == 2 ? 1 : kTrees; }

TreeNode tree_number(std::uint32_t tree, Rank rank, Rank size) {
  return tree == 0 ? binary_tree(rank, size) : complementary_tree(rank, size);
}

/// The tree of all ranks except `root`, which stands above the tree's own root.
TreeNode tree_below(Rank root, std::uint32_t tree, Rank rank, Rank n) {
  const Rank others = n - 1;
  const Rank first = ahead(root, 1, n);
  if (rank == root) {
    const Rank top = tree == 0 ? 0 : others % 2 == 0 ? others - 1 : 1;
    return {.parent = std::nullopt, .children = {ahead(first, top, n)}};
  }
  TreeNode node = tree_number(tree, behind(rank, first, n), others);
  node.parent = node.parent ? ahead(first, *node.parent, n) : root;
  for (Rank& child : node.children) child = ahead(first, child, n);
  return node;
}

}  // namespace

Program double_tree_all_reduce(const Problem& problem, Rank rank) {
  Program program = empty_program(problem, rank, kTrees);
  for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
    const TreeNode node = tree_number(tree, rank, problem.size);
    const auto up = static_cast<std::uint16_t>(2 * tree);
    const auto down = static_cast<std::uint16_t>(2 * tree + 1);
    program.lanes.push_back(lane_up(node, tree, up));
    program.lanes.push_back(lane_down(node, tree, down, output(tree)));
    if (!node.parent) program.lanes.back().steps.front().after = After{.lane = up, .step = 0};
  }
  return program;
}

Program double_tree_rooted(const Problem& problem, Rank rank) {
  const auto trees = trees_below_root(problem.size);
  Program program = empty_program(problem, rank, trees);
  for (std::uint32_t tree = 0; tree < trees; ++tree) {
    const TreeNode node = tree_below(problem.root, tree, rank, problem.size);
    const auto lane = static_cast<std::uint16_t>(tree);
    program.lanes.push_back(problem.kind == Kind::reduce
                                ? lane_up(node, tree, lane)
                                : lane_down(node, tree, lane, input(tree)));
  }
  return program;
}

Theory double_tree_all_reduce_theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  Theory theory{.blocks = n == 1 ? 1 : kTrees};
  if (moves_nothing(problem)) return theory;
  const std::uint64_t larger = block_elems(problem, kTrees, 0);
  const std::uint64_t smaller = block_elems(problem, kTrees, 1);
  const std::uint64_t trees = smaller > 0 ? 2 : 1;
  theory.depth = 2 * tree_height(problem.size);
  theory.roundings = tree_height(problem.size);
  // An inner node of one tree sends up and to its children. As a leaf of the other it sends up.
  const std::uint64_t inner = std::min<std::uint64_t>(n - 1, 3);
  const std::uint64_t children = most_children(problem.size);
  theory.busiest = {.messages = inner + trees - 1,
                    .elems_sent = inner * larger + smaller,
                    .elems_repeated = repeated(larger, children),
                    .elems_reduced = n == 3 ? problem.count : children * larger};
  theory.total = {.messages = 2 * (n - 1) * trees,
                  .elems_sent = 2 * (n - 1) * problem.count,
                  .elems_repeated = forks(problem.size) * problem.count,
                  .elems_reduced = (n - 1) * problem.count};
  return theory;
}

Theory double_tree_rooted_theory(const Problem& problem) {
  const std::uint64_t n = problem.size;
  Theory theory{.blocks = n == 1 ? 1 : trees_below_root(problem.size)};
  if (moves_nothing(problem)) return theory;
  const std::uint64_t larger = block_elems(problem, theory.blocks, 0);
  const std::uint64_t trees = larger < problem.count ? 2 : 1;
  const std::uint64_t children = most_children(problem.size - 1);
  theory.depth = 1 + tree_height(problem.size - 1);
  // This is either the root, with both halves, or an inner node with two children in one tree.
  const std::uint64_t inner = std::max(problem.count, children * larger);
  theory.total = {.messages = (n - 1) * trees, .elems_sent = (n - 1) * problem.count};
  if (problem.kind == Kind::broadcast) {
    theory.busiest = {.messages = std::max(trees, children),
                      .elems_sent = inner,
                      .elems_repeated = repeated(larger, children)};
    theory.total.elems_repeated = forks(problem.size - 1) * problem.count;
  } else {
    theory.roundings = static_cast<std::uint32_t>(theory.depth);
    theory.busiest = {.messages = trees, .elems_sent = problem.count, .elems_reduced = inner};
    theory.total.elems_reduced = theory.total.elems_sent;
  }
  return theory;
}

}  // namespace ccoll
