// SPDX-License-Identifier: Apache-2.0
#include "algorithms/trees/tree_lanes.hpp"

#include <algorithm>

namespace ccoll {

Lane lane_up(const TreeNode& node, std::uint32_t block, std::uint16_t lane) {
  Step step{.local = {input(block)}};
  std::vector<Rank> children = node.children;
  std::sort(children.begin(), children.end());
  for (const Rank child : children) step.receives.push_back({.peer = child, .lane = lane});
  if (node.parent) {
    step.sends = {*node.parent};
    // In place, only the result that was made from a leaf's lent data overwrites them.
    if (children.empty()) step.lend = Lend::always;
  } else {
    step.store = {output(block)};
    step.finish = true;
  }
  return {.steps = {std::move(step)}};
}

Lane lane_down(const TreeNode& node, std::uint32_t block, std::uint16_t lane, Operand root_has) {
  Step step{.sends = node.children, .lend = Lend::always};
  if (node.parent) {
    step.receives = {{.peer = *node.parent, .lane = lane}};
    step.store = {output(block)};
  } else {
    step.local = {root_has};
    if (root_has.buffer == Buffer::input) step.store = {output(block)};
  }
  return {.steps = {std::move(step)}};
}

Program all_reduce_over(const TreeNode& node, const Problem& problem, Rank rank) {
  Lane up = lane_up(node, 0, 0);
  Lane down = lane_down(node, 0, 1, output(0));
  if (!node.parent) down.steps.front().after = After{.lane = 0, .step = 0};
  Program program = empty_program(problem, rank, 1);
  program.lanes = {std::move(up), std::move(down)};
  return program;
}

}  // namespace ccoll
