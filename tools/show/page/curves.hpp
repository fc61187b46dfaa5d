// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data for a comparison's sliders: the algorithms' simulated times over sizes, for some
/// numbers of ranks, latencies and bandwidths around the requested ones.
///
///     {"sliders": [{"name": "ranks", "unit": "", "values": ["4", "8"], "at": 1}, …],
///      "legend": "<fieldset …",
///      "states": [                       // by ranks, then latency, then bandwidth
///        {"figure": "<figure …",         // bench/report/chart.hpp's
///         "sizes": ["64 bytes: …", …],   // a sentence for each of the last slider's values
///         "crossings": ["ring becomes …"]}]}

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "bench/measure/operations.hpp"
#include "ccoll/types.hpp"

namespace ccoll::show {

/// Per simulation; beyond them a line is extrapolated (sim::SimulateOptions). A page waits for
/// hundreds of simulations.
inline constexpr std::uint64_t kMostCurveSteps = 50'000;

struct CurvesAsked {
  const bench::Operation* operation = nullptr;
  DataType type = DataType::float32;
  Rank root = 0;
  Rank ranks = 8;
  std::uint64_t bytes = 0;  ///< shown first, or the size next to it
  LinkCosts links;
  std::vector<Algorithm> algorithms;
};

nlohmann::ordered_json curves_json(const CurvesAsked& asked);

}  // namespace ccoll::show
