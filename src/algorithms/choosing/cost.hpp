// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The cost model: how long an algorithm takes, from its Theory and a CostTable. Private to this
/// folder. It is plain arithmetic on doubles, so every rank gets the same result.

#include "algorithms/algorithms.hpp"

namespace ccoll {

/// Lanes of one operation, unless the caller asks for fewer or more ports can be used.
inline constexpr std::uint16_t kMostLanes = 4;

/// The model of one algorithm on one problem, which both must outlive it. It looks up once what it
/// needs from them.
class Model {
 public:
  Model(const CatalogueEntry& entry, const Problem& problem, std::size_t elem_bytes);
  const Theory& theory() const { return theory_; }
  /// Links that the busiest rank has to hold open per direction and lane; 0 where they are few.
  double links() const { return links_; }
  /// Predicted time in nanoseconds.
  double ns(const Choice& choice, const CostTable& costs) const;

 private:
  const CatalogueEntry& entry_;
  const Problem& problem_;
  std::size_t elem_bytes_;
  Theory theory_;
  double links_ = 0;         ///< as links()
  double leaving_host_ = 0;  ///< elements; 0 where there is one host
};

struct Tuned {
  Choice choice;
  double predicted_ns;
  std::uint32_t roundings;  ///< as Theory's
  std::uint64_t messages;   ///< of the busiest rank, in one window
};
/// The best Choice for `entry` with at most `max_lanes` lanes, and its time. Empty if even one
/// element of each block of a message does not fit a slot.
std::optional<Tuned> tune(const CatalogueEntry& entry, const Problem& problem,
                          std::size_t elem_bytes, const CostTable& costs, std::uint16_t max_lanes);

}  // namespace ccoll
