// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the algorithms on trees have in common: one rank's lane up a tree and down a tree. Private
/// to this folder.

#include "algorithms/common.hpp"
#include "algorithms/trees/binary_tree.hpp"

namespace ccoll {

/// Combines the children's sums of block `block` with the own contribution, in lane `lane`, and
/// sends it to the parent; the root stores the result.
Lane lane_up(const TreeNode& node, std::uint32_t block, std::uint16_t lane);

/// Stores block `block` as it comes from the parent, in lane `lane`, and sends it to the children;
/// the root sends `root_has` and, where it is its input, stores it too.
Lane lane_down(const TreeNode& node, std::uint32_t block, std::uint16_t lane, Operand root_has);

/// Up and down one tree that has the whole buffer: two lanes joined at the root, so that the next
/// window climbs while the last one descends.
Program all_reduce_over(const TreeNode& node, const Problem& problem, Rank rank);

}  // namespace ccoll
