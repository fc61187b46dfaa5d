// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The topology of control connections: a binary tree with rank 0 at the root, and the ring. A ring
/// edge that is a tree edge too (0–1, and the closing one of two or three ranks) is one connection.
/// Each rank has at most five; the loss of any one rank leaves the others connected. (As ranks go,
/// Reconnection adds one to a rank above.)

#include <cstdint>
#include <vector>

namespace ccoll::control {

/// For any rank but 0.
constexpr std::uint32_t parent_of(std::uint32_t rank) { return (rank - 1) / 2; }

constexpr bool is_tree_edge(std::uint32_t a, std::uint32_t b) {
  return (a != 0 && parent_of(a) == b) || (b != 0 && parent_of(b) == a);
}

constexpr std::uint32_t successor_of(std::uint32_t rank, std::uint32_t size) {
  return rank + 1 == size ? 0 : rank + 1;
}

constexpr std::uint32_t predecessor_of(std::uint32_t rank, std::uint32_t size) {
  return rank == 0 ? size - 1 : rank - 1;
}

/// The tree's neighbour of `rank` on the way to another rank `to`.
constexpr std::uint32_t next_hop(std::uint32_t rank, std::uint32_t to) {
  // Ranks fall on the way up: `to` reaches `rank`'s child, or passes `rank` if it is not below.
  while (to > rank) {
    if (parent_of(to) == rank) return to;
    to = parent_of(to);
  }
  return parent_of(rank);
}

inline std::vector<std::uint32_t> children_of(std::uint32_t rank, std::uint32_t size) {
  std::vector<std::uint32_t> children;
  for (std::uint64_t child = 2 * std::uint64_t{rank} + 1; child <= 2 * std::uint64_t{rank} + 2;
       ++child)
    if (child < size) children.push_back(static_cast<std::uint32_t>(child));
  return children;
}

/// `rank` and all below it, level by level: the order in which a subtree's rows travel up.
inline std::vector<std::uint32_t> subtree_of(std::uint32_t rank, std::uint32_t size) {
  std::vector<std::uint32_t> ranks;
  for (std::uint64_t first = rank, width = 1; first < size; first = 2 * first + 1, width *= 2)
    for (std::uint64_t next = first; next < first + width && next < size; ++next)
      ranks.push_back(static_cast<std::uint32_t>(next));
  return ranks;
}

/// Whether `rank` calls its ring successor: if that is no tree edge. It calls its parent too; all
/// its other peers call it.
inline bool calls_successor(std::uint32_t rank, std::uint32_t size) {
  return size > 1 && !is_tree_edge(rank, successor_of(rank, size));
}

/// Whether `caller` opens a connection to `rank`.
inline bool is_called_by(std::uint32_t rank, std::uint32_t caller, std::uint32_t size) {
  if (caller >= size || caller == rank) return false;
  if (caller != 0 && parent_of(caller) == rank) return true;
  return successor_of(caller, size) == rank && calls_successor(caller, size);
}

}  // namespace ccoll::control
