// SPDX-License-Identifier: Apache-2.0

/// Binomial tree: each rank that has the data sends it on, so their number doubles every round.
///
/// Counted from the root, the parent of rank v is v without its lowest set bit. The subtree of v is
/// the ranks from v up to the next one whose lowest bit is higher. Broadcast and reduce send the
/// whole buffer along each edge. Gather and scatter send a subtree's blocks as one message, since
/// they are consecutive: fewer messages than linear, for more bytes.
///
/// Rounds: ⌊log2 n⌋. Messages sent by the root: ⌈log2 n⌉ for broadcast and scatter. Bytes sent per
/// rank: ⌈log2 n⌉ × size for broadcast, size for reduce; for gather and scatter its subtree's
/// blocks, up to n/2 of them, and all n-1 by scatter's root. Any n and root; equal blocks only,
/// because a rank that forwards blocks has to know their sizes. Source: M. Barnett, L. Shuler, S.
/// Gupta, D. G. Payne, R. van de Geijn, J. Watts, "Building a High-Performance Collective
/// Communication Library", Supercomputing (1994). Drawings: binomial_broadcast_8.txt,
/// binomial_reduce_8.txt, binomial_gather_5.txt, binomial_scatter_5.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"

namespace ccoll {
namespace {

/// A rank's edge to a child, both counted from the root.
struct Child {
  Rank place;
  Rank subtree;  ///< ranks in it
};

/// A rank's place in the tree; places are ranks counted from the root.
struct Node {
  Rank root;
  Rank size;
  Rank place;
  Rank subtree;                 ///< ranks in it, with this one
  std::vector<Child> children;  ///< largest subtree first

  Node(const Problem& problem, Rank rank)
      : root(problem.root),
        size(problem.size),
        place(behind(rank, problem.root, problem.size)),
        subtree(place == 0 ? size : std::min(lowest_bit(), size - place)) {
    for (Rank step = subtree > 1 ? std::bit_floor(subtree - 1) : 0; step > 0; step /= 2) {
      children.push_back({place + step, std::min(step, subtree - step)});
    }
  }
  Rank lowest_bit() const { return place & (~place + 1); }
  Rank parent() const { return rank_at(place - lowest_bit()); }
  Rank rank_at(Rank at) const { return ahead(at, root, size); }
};

/// The blocks of a node's subtree: its own, then the ones that it keeps in scratch for the others.
std::vector<Operand> subtree_blocks(const Node& node, Operand own) {
  std::vector<Operand> operands{own};
  if (node.subtree > 1) {
    operands.push_back(scratch(node.rank_at(node.place + 1), node.subtree - 1));
  }
  return operands;
}

Program forwarding(const Problem& problem, Rank rank, const Node& node, std::vector<Step> steps) {
  Program program = one_lane(problem, rank, problem.size, {.steps = std::move(steps)});
  if (node.place != 0 && node.subtree > 1) {
    program.lanes[0].scratch_block = node.rank_at(node.place + 1);
    program.lanes[0].scratch_blocks = node.subtree - 1;
  }
  return program;
}

}  // namespace

Program binomial_broadcast(const Problem& problem, Rank rank) {
  const Node node(problem, rank);
  Step step{.store = {output(0)}, .lend = Lend::always};
  if (node.place == 0) {
    step.local = {input(0)};
  } else {
    step.receives = {{node.parent()}};
  }
  for (const Child& child : node.children) step.sends.push_back(node.rank_at(child.place));
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Program binomial_reduce(const Problem& problem, Rank rank) {
  const Node node(problem, rank);
  Step step{.local = {input(0)}};
  for (const Child& child : node.children) step.receives.push_back({node.rank_at(child.place)});
  std::sort(step.receives.begin(), step.receives.end(),
            [](const Receive& a, const Receive& b) { return a.peer < b.peer; });
  if (node.place == 0) {
    step.store = {output(0)};
    step.finish = true;
  } else {
    step.sends = {node.parent()};
    if (node.children.empty()) step.lend = Lend::always;
  }
  return one_lane(problem, rank, 1, {.steps = {std::move(step)}});
}

Program binomial_gather(const Problem& problem, Rank rank) {
  const Node node(problem, rank);
  const bool root = node.place == 0;
  std::vector<Step> steps;
  if (root) steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  // Small subtrees are ready first.
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    const Rank peer = node.rank_at(child->place);
    steps.push_back(
        {.receives = {{peer}},
         .store = {root ? output(peer, child->subtree) : scratch(peer, child->subtree)}});
  }
  if (!root) {
    // Scratch is written again in the next window, perhaps before the parent has read it.
    steps.push_back({.local = subtree_blocks(node, input(rank)),
                     .sends = {node.parent()},
                     .lend = node.subtree == 1 ? Lend::always : Lend::never});
  }
  return forwarding(problem, rank, node, std::move(steps));
}

Program binomial_scatter(const Problem& problem, Rank rank) {
  const Node node(problem, rank);
  const bool root = node.place == 0;
  std::vector<Step> steps;
  if (!root) {
    steps.push_back({.receives = {{node.parent()}}, .store = subtree_blocks(node, output(rank))});
  }
  for (const Child& child : node.children) {
    const Rank peer = node.rank_at(child.place);
    steps.push_back({.local = {root ? input(peer, child.subtree) : scratch(peer, child.subtree)},
                     .sends = {peer},
                     .lend = root ? Lend::always : Lend::never});
  }
  if (root) steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  return forwarding(problem, rank, node, std::move(steps));
}

}  // namespace ccoll
