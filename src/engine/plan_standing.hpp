// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the present run of a plan stands, and for which ranks it waits: for diagnosis.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/block_layout.hpp"
#include "engine/plan/lanes.hpp"
#include "engine/plan/step_executor.hpp"

namespace ccoll {

class CountCheck;

/// The state that a standing is read from.
struct PlanView {
  std::span<const ReadyLane> lanes;
  const BlockLayout& layout;
  const StepExecutor::Outgoing& outgoing;
  const CountCheck* check = nullptr;  ///< runs beside the lanes; null if there is none
  std::uint64_t limit = 0;            ///< number of windows open so far
  bool rests = false;                 ///< all open windows are finished, and there are more
};

/// Valid while the plan is neither advanced nor started again.
class PlanStanding {
 public:
  explicit PlanStanding(const PlanView& plan) : plan_(plan) {}

  /// The position of the first lane with open windows left; all numbers from 0.
  struct Position {
    std::size_t lane = 0;
    std::size_t step = 0;
    std::size_t steps = 0;
    std::uint64_t window = 0;
    std::uint64_t windows = 0;
  };
  /// None if no lane has open windows left.
  std::optional<Position> position() const;
  /// Grows with every step of the present run: shows whether it moves.
  std::uint64_t steps_taken() const;
  /// The position in words, for messages about a run that does not move: "in step 3 of 8, window 1
  /// of 4".
  std::string text() const;

  /// `never_connected`: only ranks whose link has never been connected. `in_the_way`: while a step
  /// is blocked, only the ranks that block it, not those that have yet to take earlier sends.
  enum class Which : std::uint8_t { all, never_connected, in_the_way };
  /// The ranks (of the communicator) for which the run waits.
  std::vector<Rank> awaited(Which which = Which::all) const;
  /// Ranks other than awaited() from which the rest of the run needs slices that have not come:
  /// they may be late, or waiting themselves.
  std::vector<Rank> silent() const;

 private:
  const PlanView plan_;
};

}  // namespace ccoll
