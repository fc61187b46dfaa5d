// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The trees along which blocks travel, derived from the messages: in a tree every rank but the
/// root sends its sum to one parent, or gets the data from one.

#include <optional>
#include <string>
#include <vector>

#include "rounds/rounds.hpp"

namespace ccoll::show {

struct Tree {
  std::vector<std::uint32_t> blocks;  ///< that travel along it; empty for gather and scatter
  std::vector<std::optional<Rank>> parents;
  Rank root = 0;

  /// Ascending.
  std::vector<Rank> children_of(Rank rank) const;
};

/// The trees of a schedule in which every block travels along one, if there are at most two over at
/// least three ranks; else empty. For gather and scatter the tree of all blocks together.
std::vector<Tree> trees_of(const Rounds& rounds);

/// How the second of two trees derives from the first: "mirrored" (rank r is its rank n-1-r),
/// "shifted" (its rank r-1, or the last for 0); empty if neither.
std::string relation_of(const std::vector<Tree>& trees);

/// The rule by which our algorithm makes its trees; empty if it needs no explanation.
std::string tree_rule(Algorithm algorithm);

/// The trees as indented text, with the ranks that are inner nodes in both if there are two.
std::string trees_text(const std::vector<Tree>& trees);

}  // namespace ccoll::show
