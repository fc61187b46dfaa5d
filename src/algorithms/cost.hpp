// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The cost model: how long an algorithm takes, from its Theory and a CostTable. Private to this
/// folder. Plain arithmetic on doubles, so that every rank gets the same.

#include "algorithms/algorithms.hpp"

namespace ccoll {

/// Nanoseconds that `entry`, whose theory of `problem` is given, takes with `choice`.
double predict_ns(const CatalogueEntry& entry, const Theory& theory, const Problem& problem,
                  const Choice& choice, std::size_t elem_bytes, const CostTable& costs);

/// The best Choice for `entry` with at most `max_lanes` lanes, and the time it takes; nothing when
/// even one element of each block of a message does not fit a slot.
struct Tuned {
  Choice choice;
  double predicted_ns;
};
std::optional<Tuned> tune(const CatalogueEntry& entry, const Problem& problem,
                          std::size_t elem_bytes, const CostTable& costs, std::uint16_t max_lanes);

}  // namespace ccoll
