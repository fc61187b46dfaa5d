// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Expressions over ranks' contributions, interned: equal numbers mean equal computations. So one
/// comparison shows whether two ranks hold the same. Which block and window an expression belongs
/// to is up to the caller.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll::detail {

using Expression = std::uint32_t;
inline constexpr Expression kUndefined = UINT32_MAX;
/// The outcome of something already reported; it is not reported again wherever it goes.
inline constexpr Expression kPoison = UINT32_MAX - 1;

class Combinations {
 public:
  explicit Combinations(Rank size);

  /// Rank `rank`'s own contribution.
  static Expression leaf(Rank rank) { return rank; }

  /// One step that combines `sources` (at least one, all defined) from left to right and rounds
  /// once. Combining commutes, so the first two may be swapped. One source without `finish` is the
  /// result itself.
  Expression combine(std::span<const Expression> sources, bool finish);

  bool finished(Expression expression) const { return nodes_[expression].finished; }
  /// Roundings of a 16-bit float on the longest path from a leaf.
  std::uint32_t roundings(Expression expression) const { return nodes_[expression].roundings; }
  /// Whether every rank's contribution is in it: at least once, or exactly once.
  bool has_all(Expression expression, bool exactly_once);
  /// The expressions it combines, in order; a leaf has none.
  std::span<const Expression> sources_of(Expression expression) const {
    return sources_of(nodes_[expression]);
  }
  /// How often each rank contributes, by rank; saturates.
  std::vector<std::uint64_t> multiplicities(Expression expression) const;
  /// "((0+1)+2)+3": brackets enclose the terms of one step.
  std::string text(Expression expression) const;
  /// "once from rank 0 2, 2 times from rank 1, none from rank 3 4".
  std::string describe(Expression expression) const;

 private:
  struct Node {
    std::uint32_t begin = 0;  ///< of its sources, in sources_
    std::uint32_t end = 0;
    std::uint64_t leaves = 1;  ///< with repetitions; saturates
    std::uint32_t roundings = 0;
    bool finished = false;
    std::int8_t all[2] = {-1, -1};  ///< has_all's answers, once computed
  };

  std::span<const Expression> sources_of(const Node& node) const {
    return std::span(sources_).subspan(node.begin, node.end - node.begin);
  }
  Expression add(std::span<const Expression> sources, bool finish);
  bool reaches_all(Expression expression);
  void grow();

  Rank size_;
  std::vector<Node> nodes_;  ///< the leaves first
  std::vector<Expression> sources_;
  std::vector<Expression> table_;  ///< open addressing over the inner nodes
  std::vector<Expression> canonical_;
  std::vector<Expression> stack_;
  std::vector<std::uint32_t> seen_;  ///< by node, the walk that met it last
  std::uint32_t walks_ = 0;
};

}  // namespace ccoll::detail
