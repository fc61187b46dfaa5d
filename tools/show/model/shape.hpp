// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The trees along which blocks travel, read off the messages: in a tree every rank but the root
/// sends its sum to one parent, or gets the data from one.

#include <optional>
#include <string>
#include <vector>

#include "rounds/rounds.hpp"

namespace ccoll::show {

struct Tree {
  std::vector<std::uint32_t> blocks;  ///< that travel along it; of gather and scatter none
  std::vector<std::optional<Rank>> parents;
  Rank root = 0;

  /// Ascending.
  std::vector<Rank> children_of(Rank rank) const;
};

/// The trees of a schedule whose every block travels along one, if there are at most two of them
/// over at least three ranks; else none. Of gather and scatter that of all blocks together.
std::vector<Tree> trees_of(const Rounds& rounds);

/// How the second of two trees comes from the first: "mirrored" (rank r is its rank n-1-r),
/// "shifted" (its rank r-1, or the last for 0); empty where it is neither.
std::string relation_of(const std::vector<Tree>& trees);

/// The rule by which an algorithm of ours makes its trees; empty where it needs no words.
std::string tree_rule(Algorithm algorithm);

/// The trees as indented text, and who is an inner node in both if there are two.
std::string trees_text(const std::vector<Tree>& trees);

}  // namespace ccoll::show
