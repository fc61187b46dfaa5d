// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a System in virtual time.
///
/// A lane's step begins when three things are true. The step before it has ended, and so has its
/// `after` step for the same window. All that it receives has arrived. There is room in all links
/// that it sends on. The step keeps its thread (and a core) busy with its messages and its
/// combining; then its receives are popped, and its sends leave. If its slice is empty in a window,
/// it waits only for its `after` step. engine/plan.cpp and verify/execute.cpp read a schedule in
/// the same way.
///
/// Events and shortcuts. A resource that several can want at once (SimResource::shared) is assigned
/// in the order of virtual time, through the queue. All else follows from known times and is
/// computed at once, in any order of time: a ring shares nothing and never uses the queue. An event
/// causes nothing before or at its own time (steps, bytes and latencies take a picosecond at
/// least). So the times are the same as in the plain way, with every resource shared.
///
/// Windows. The future depends on some numbers. If all of them repeat, except for the time and the
/// number of windows, the events in between will repeat as long as windows are whole. So that many
/// repetitions are skipped at once. Nothing is estimated: the two states are compared number by
/// number.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "sim/system.hpp"
#include "sim/time_queue.hpp"

namespace ccoll::sim {

struct RunOptions {
  bool skip_repetitions = true;
  std::uint64_t max_steps = UINT64_MAX;  ///< limit on the steps that run
  /// Gets the arrival time of each message, with a list for every link; null: they are not kept.
  std::vector<std::vector<Picoseconds>>* arrivals = nullptr;
};

struct Outcome {
  Picoseconds ready = 0;     ///< time when every rank has its result
  Picoseconds returned = 0;  ///< time when, in addition, all lent memory is its owner's again
  Rank last = 0;             ///< the last of the kept ranks to be ready
  std::uint64_t steps = 0;   ///< steps that ran one by one
  std::uint64_t windows_skipped = 0;
};

/// Fails with exhausted after `max_steps`, and with internal if lanes wait for each other.
Result<Outcome> run(const System& system, const RunOptions& options);

}  // namespace ccoll::sim
