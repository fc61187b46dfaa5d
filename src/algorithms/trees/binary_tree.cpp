// SPDX-License-Identifier: Apache-2.0
#include "algorithms/trees/binary_tree.hpp"

#include <bit>

namespace ccoll {

TreeNode binary_tree(Rank rank, Rank size) {
  TreeNode node;
  if (rank == 0) {
    if (size > 1) node.children = {std::bit_floor(size - 1)};
    return node;
  }
  const Rank bit = rank & (~rank + 1);
  const std::uint64_t up = (std::uint64_t{rank} - bit) | (std::uint64_t{bit} << 1);
  node.parent = up < size ? static_cast<Rank>(up) : rank - bit;
  if (bit == 1) return node;
  node.children = {rank - bit / 2};
  for (Rank step = bit / 2; step > 0; step /= 2) {
    if (size - rank > step) {
      node.children.push_back(rank + step);
      break;
    }
  }
  return node;
}

TreeNode complementary_tree(Rank rank, Rank size) {
  const bool mirror = size % 2 == 0;
  const auto back = [&](Rank place) {
    return mirror ? size - 1 - place : static_cast<Rank>((std::uint64_t{place} + 1) % size);
  };
  const Rank place =
      mirror ? size - 1 - rank : static_cast<Rank>((std::uint64_t{rank} + size - 1) % size);
  TreeNode node = binary_tree(place, size);
  if (node.parent) node.parent = back(*node.parent);
  for (Rank& child : node.children) child = back(child);
  return node;
}

std::uint32_t tree_height(Rank size) {
  return static_cast<std::uint32_t>(std::bit_width(size - 1));
}

// All but the odd ranks have children.
std::uint32_t forks(Rank size) { return size >= 2 ? size / 2 - 1 : 0; }

std::uint32_t most_children(Rank size) { return size >= 4 ? 2 : size >= 2 ? 1 : 0; }

}  // namespace ccoll
