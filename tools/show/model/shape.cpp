// SPDX-License-Identifier: Apache-2.0
#include "show/model/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "show/text/labels.hpp"

namespace ccoll::show {

namespace {

/// Child and parent.
using Edge = std::pair<Rank, Rank>;

/// The edges on a block's way up, where contributions are combined; if there is none, on its way
/// down.
std::vector<Edge> edges_of(const Rounds& rounds, std::uint32_t block) {
  std::vector<Edge> up;
  std::vector<Edge> down;
  for (const Round& round : rounds.rounds) {
    for (const Message& message : round.messages) {
      for (const MessageBlock& piece : message.pieces) {
        if (piece.block != block) continue;
        if (message.reduces) up.emplace_back(message.from.rank, message.to);
        if (!message.reduces) down.emplace_back(message.to, message.from.rank);
      }
    }
  }
  return up.empty() ? down : up;
}

/// The edges of all blocks on their way to, or from, the root.
std::vector<Edge> edges_of_all(const Rounds& rounds) {
  const bool up = rounds.problem.kind == Kind::gather;
  std::vector<Edge> edges;
  for (const Round& round : rounds.rounds) {
    for (const Message& message : round.messages) {
      const Edge edge =
          up ? Edge{message.from.rank, message.to} : Edge{message.to, message.from.rank};
      if (std::ranges::find(edges, edge) == edges.end()) edges.push_back(edge);
    }
  }
  return edges;
}

/// Empty if the edges do not form a tree over all ranks.
std::optional<Tree> tree_from(const std::vector<Edge>& edges, Rank size) {
  Tree tree;
  tree.parents.resize(size);
  for (const auto& [child, parent] : edges) {
    if (tree.parents[child]) return std::nullopt;
    tree.parents[child] = parent;
  }
  if (edges.size() + 1 != size) return std::nullopt;
  for (Rank rank = 0; rank < size; ++rank) {
    if (!tree.parents[rank]) tree.root = rank;
    // More steps up than there are ranks mean a cycle.
    Rank at = rank;
    Rank steps = 0;
    for (; tree.parents[at] && steps < size; ++steps) at = *tree.parents[at];
    if (steps == size) return std::nullopt;
  }
  return tree;
}

void write(const Tree& tree, Rank rank, const std::string& indent, std::string& text) {
  const std::vector<Rank> children = tree.children_of(rank);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const bool is_last = i + 1 == children.size();
    text += fmt::format("{}{} rank {}\n", indent, is_last ? "`--" : "|--", children[i]);
    write(tree, children[i], indent + (is_last ? "    " : "|   "), text);
  }
}

bool is_chain(const Tree& tree) {
  for (Rank rank = 0; rank < tree.parents.size(); ++rank) {
    if (tree.children_of(rank).size() > 1) return false;
  }
  return true;
}

/// "Every rank is an inner node in one tree at the most", or the ranks that are inner in both.
std::string balance_text(const std::vector<Tree>& trees) {
  std::vector<std::uint32_t> both;
  for (Rank rank = 0; rank < trees[0].parents.size(); ++rank) {
    const auto is_inner = [&](const Tree& tree) { return !tree.children_of(rank).empty(); };
    if (std::ranges::all_of(trees, is_inner)) both.push_back(rank);
  }
  if (both.empty()) return "No rank is an inner node in both: each is a leaf in one.\n";
  return fmt::format("Inner in both trees: {}; every other rank is a leaf in one.\n",
                     list_ranks(both));
}

}  // namespace

std::vector<Rank> Tree::children_of(Rank rank) const {
  std::vector<Rank> children;
  for (Rank child = 0; child < parents.size(); ++child) {
    if (parents[child] == rank) children.push_back(child);
  }
  return children;
}

std::vector<Tree> trees_of(const Rounds& rounds) {
  std::vector<Tree> trees;
  const Problem& problem = rounds.problem;
  if (problem.size < 3) return trees;
  if (problem.kind == Kind::gather || problem.kind == Kind::scatter) {
    if (auto tree = tree_from(edges_of_all(rounds), problem.size)) trees.push_back(*tree);
    return trees;
  }
  for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
    const std::vector<Edge> edges = edges_of(rounds, block);
    if (edges.empty()) continue;
    std::optional<Tree> tree = tree_from(edges, problem.size);
    if (!tree) return {};
    const auto same = std::ranges::find(trees, tree->parents, &Tree::parents);
    if (same == trees.end()) {
      if (trees.size() == 2) return {};
      tree->blocks = {block};
      trees.push_back(std::move(*tree));
    } else {
      same->blocks.push_back(block);
    }
  }
  return trees;
}

std::string relation_of(const std::vector<Tree>& trees) {
  if (trees.size() != 2) return {};
  const auto size = static_cast<Rank>(trees[0].parents.size());
  const auto is_made_by = [&](const auto& moved) {
    for (Rank rank = 0; rank < size; ++rank) {
      const std::optional<Rank>& parent = trees[0].parents[rank];
      const std::optional<Rank>& other = trees[1].parents[moved(rank)];
      if (parent.has_value() != other.has_value()) return false;
      if (parent && moved(*parent) != *other) return false;
    }
    return true;
  };
  if (is_made_by([&](Rank rank) { return size - 1 - rank; })) return "mirrored";
  if (is_made_by([&](Rank rank) { return (rank + 1) % size; })) return "shifted";
  return {};
}

std::string tree_rule(Algorithm algorithm) {
  if (algorithm != Algorithm::tree && algorithm != Algorithm::double_tree) return {};
  std::string text =
      "The rule, with ranks in binary: those that end in 1 are leaves; 2 (10) joins 1 and 3, 6 "
      "(110) joins 5 and 7, 4 (100) joins 2 and 6: each the ranks half its lowest set bit away.";
  if (algorithm == Algorithm::double_tree) {
    text += " The second tree's row is mirrored (an even number of ranks) or shifted by one (odd).";
  }
  return text;
}

std::string trees_text(const std::vector<Tree>& trees) {
  std::string text;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const Tree& tree = trees[i];
    const std::string_view what = is_chain(tree) ? "chain" : "tree";
    text += trees.size() == 1
                ? fmt::format("The {}:\n", what)
                : fmt::format("Tree {}, of block{} {}:\n", i + 1,
                              tree.blocks.size() == 1 ? "" : "s", blocks_text(tree.blocks));
    text += fmt::format("  rank {}\n", tree.root);
    write(tree, tree.root, "  ", text);
  }
  if (trees.size() == 2) text += balance_text(trees);
  return text;
}

}  // namespace ccoll::show
