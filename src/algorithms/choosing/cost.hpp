// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The cost model: how long an algorithm takes, from its Theory and a CostTable. Private to this
/// folder. Plain arithmetic on doubles, so that every rank gets the same.

#include "algorithms/algorithms.hpp"

namespace ccoll {

/// Lanes of one operation, where nobody asks for fewer and there are no more ports to use.
inline constexpr std::uint16_t kMostLanes = 4;

/// One algorithm on one problem, both of which outlive it: what the model needs to know of them,
/// looked up once.
class Model {
 public:
  Model(const CatalogueEntry& entry, const Problem& problem, std::size_t elem_bytes);
  const Theory& theory() const { return theory_; }
  /// That the busiest rank has to hold open in either direction and lane; 0 where they are few.
  double links() const { return links_; }
  /// Nanoseconds that it takes.
  double ns(const Choice& choice, const CostTable& costs) const;

 private:
  const CatalogueEntry& entry_;
  const Problem& problem_;
  std::size_t elem_bytes_;
  Theory theory_;
  double links_ = 0;         ///< that the busiest rank has to hold open, where they are many
  double leaving_host_ = 0;  ///< elements; 0 where there is one host
};

/// The best Choice for `entry` with at most `max_lanes` lanes, and the time it takes; nothing when
/// even one element of each block of a message does not fit a slot.
struct Tuned {
  Choice choice;
  double predicted_ns;
};
std::optional<Tuned> tune(const CatalogueEntry& entry, const Problem& problem,
                          std::size_t elem_bytes, const CostTable& costs, std::uint16_t max_lanes);

}  // namespace ccoll
