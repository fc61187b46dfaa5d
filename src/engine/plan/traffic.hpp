// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The traffic of a plan's runs, computed from its steps on request, so that a run only needs to be
/// counted.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/links.hpp"
#include "engine/plan/block_layout.hpp"
#include "engine/plan/lanes.hpp"

namespace ccoll {

class RunTraffic {
 public:
  /// A run with blocks of the present sizes is over.
  void add_run() { runs_++; }
  /// Call before the block sizes change.
  void settle(std::span<const ReadyLane> lanes, const BlockLayout& layout);
  /// Adds what the runs have sent and received so far. `is_running`: the lanes' present run, too.
  void add_to(TrafficTable& table, std::span<const ReadyLane> lanes, const BlockLayout& layout,
              bool is_running) const;

 private:
  std::uint64_t runs_ = 0;
  std::vector<StepVolume> settled_;  ///< of runs with other sizes, by step, lane after lane
};

}  // namespace ccoll
