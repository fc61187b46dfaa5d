// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a resolved schedule over bounded links, without data: it finds which step runs when, and
/// where all lanes stand if they stop. Programs have no wildcards, so one order of the steps stands
/// for all.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/resolve.hpp"

namespace ccoll::detail {

/// One run of a lane's step for one window.
struct StepRun {
  std::uint32_t lane;  ///< global
  std::uint32_t step;
  std::uint32_t window;
};

/// The event that a lane waits for if it cannot move.
struct Waiting {
  enum class For : std::uint8_t { nothing, slice, room, after };
  For what = For::nothing;
  std::uint32_t link = kNone;  ///< for slice and room
};

struct LaneState {
  std::uint32_t step = 0;
  std::uint64_t window = 0;  ///< the number of windows or more if done with this call
  std::uint32_t call = 0;
  std::uint32_t checked = 0;  ///< receives and sends of this step that are known to be ready
  bool queued = false;
  Waiting waiting;
};

struct LinkState {
  std::uint64_t pushed = 0;
  std::uint64_t popped = 0;
};

struct Execution {
  bool finished = false;
  /// The first call's steps, in an order that respects program order, `after` and messages.
  std::vector<StepRun> trace;
  std::vector<LaneState> lanes;
  std::vector<LinkState> links;
};

/// Runs `calls` calls one after another over links with `slots` slots. A rank begins the next call
/// when its lanes have all ended one. Costs O(steps × windows + messages).
Execution execute(const Resolved& schedule, std::uint64_t slots, std::uint32_t calls);

/// The lanes that wait for each other in an execution that did not finish. They are a cycle, or a
/// chain that ends at a lane that has ended, or at a message that no lane takes.
struct Deadlock {
  std::vector<std::uint32_t> lanes;  ///< each waits for the next
  bool is_cycle = false;             ///< the last one waits for the first
};
Deadlock find_deadlock(const Resolved& schedule, const Execution& execution);

/// The deadlock as a sentence.
std::string describe_deadlock(const Resolved& schedule, const Execution& execution);

}  // namespace ccoll::detail
