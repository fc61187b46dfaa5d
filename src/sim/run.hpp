// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a System in virtual time.
///
/// A lane's step begins when the step before it has ended, the step that it comes after has ended
/// for the same window, all that it receives has arrived and there is room in all links that it
/// sends on. It keeps its thread (and a core) busy with its messages and its combining; then what
/// it received is popped, and what it sends leaves. A step of a window in which its slice is empty
/// waits for nothing but the step that it comes after. This is how engine/plan.cpp and
/// verify/execute.cpp read a schedule.
///
/// Events and shortcuts. A resource that several can want at once (SimResource::shared) is given
/// out in the order of virtual time, through the queue. All else follows from times that are
/// already known and is computed at once, whatever the time: a ring, where nothing is shared, never
/// meets the queue. Nothing that happens at one time can cause anything before or at that time
/// (steps, bytes and latencies take a picosecond at least), so both give the same times as the
/// plain way, with every resource shared.
///
/// Windows. When all that the future depends on is the same again, but for the time and for the
/// windows that have passed, what has happened in between will repeat as long as windows are whole:
/// it is skipped that many times at once. Nothing is estimated: the two states are compared number
/// by number.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "sim/system.hpp"
#include "sim/time_queue.hpp"

namespace ccoll::sim {

struct RunOptions {
  bool skip_repetitions = true;
  std::uint64_t max_steps = UINT64_MAX;  ///< that are carried out
  /// Where to keep when each message comes, link by link; null: nowhere. A list for every link.
  std::vector<std::vector<Picoseconds>>* arrivals = nullptr;
};

struct Outcome {
  Picoseconds ready = 0;     ///< every rank has its result
  Picoseconds returned = 0;  ///< and everything that was lent is its owner's again
  Rank last = 0;             ///< of the kept ranks, who was ready last
  std::uint64_t steps = 0;   ///< that were carried out one by one
  std::uint64_t windows_skipped = 0;
};

/// Fails with exhausted after `max_steps`, and with internal when lanes wait for each other.
Result<Outcome> run(const System& system, const RunOptions& options);

}  // namespace ccoll::sim
