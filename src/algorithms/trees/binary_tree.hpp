// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Binary trees over ranks by arithmetic alone: O(log n) per query, nothing stored.
///
/// Write the ranks as a row. The odd ones are leaves. A rank whose lowest set bit is b joins the
/// two subtrees on either side of it, each up to b - 1 ranks wide:
///
///     0 ───────────── 4
///                ┌────┴────┐
///                2         6
///             ┌──┴──┐   ┌──┴
///             1     3   5              (n = 7)
///
/// The rule is NCCL's (src/graph/trees.cc). Private to this folder.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

/// One rank's place in a tree.
struct TreeNode {
  std::optional<Rank> parent;  ///< none at the root
  std::vector<Rank> children;  ///< at most two in a binary tree, the larger subtree first
};

/// Rank `rank` of the tree over 0 … size-1; its root is 0, which has one child at most.
TreeNode binary_tree(Rank rank, Rank size);

/// The same in the second tree, which complements the first. If size is even, the row is mirrored,
/// the root is size-1, and no rank is an inner node in both. If size is odd, the row is shifted by
/// one, the root is 1 (0 if alone), and only rank 0 is an inner node in both.
TreeNode complementary_tree(Rank rank, Rank size);

/// Edges from the root to the deepest leaf: ⌈log2 size⌉.
std::uint32_t tree_height(Rank size);

/// The largest number of children of any rank.
std::uint32_t most_children(Rank size);

/// Number of ranks with two children.
std::uint32_t forks(Rank size);

}  // namespace ccoll
