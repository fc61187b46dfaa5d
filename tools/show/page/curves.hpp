// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a comparison's sliders choose among: the algorithms' simulated times over sizes, with some
/// numbers of ranks, latencies and bandwidths round those that were asked for.
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

/// Of one simulation; beyond them a line is drawn (sim::SimulateOptions). A page waits for
/// hundreds of them.
inline constexpr std::uint64_t kMostCurveSteps = 50'000;

struct CurvesAsked {
  const bench::Operation* operation = nullptr;
  DataType type = DataType::float32;
  Rank root = 0;
  Rank ranks = 8;
  std::uint64_t bytes = 0;  ///< the size that is shown first, or the one next to it
  LinkCosts links;
  std::vector<Algorithm> algorithms;
};

nlohmann::ordered_json curves_json(const CurvesAsked& asked);

}  // namespace ccoll::show
