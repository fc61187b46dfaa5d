// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Lanes that the algorithms on trees share: one rank's lane up a tree and down a tree. Private to
/// this folder.

#include "algorithms/common.hpp"
#include "algorithms/trees/binary_tree.hpp"

namespace ccoll {

/// Combines the children's sums of block `block` with the own contribution, in lane `lane`, and
/// sends the sum to the parent; the root stores the result.
Lane lane_up(const TreeNode& node, std::uint32_t block, std::uint16_t lane);

/// Stores block `block` as it comes from the parent, in lane `lane`, and sends it to the children.
/// The root sends `root_has`, and stores it too if that is its input.
Lane lane_down(const TreeNode& node, std::uint32_t block, std::uint16_t lane, Operand root_has);

/// All-reduce of the whole buffer up and down one tree. Two lanes are joined at the root, so that
/// the next window climbs while the last one descends.
Program all_reduce_over(const TreeNode& node, const Problem& problem, Rank rank);

}  // namespace ccoll
