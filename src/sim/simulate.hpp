// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The time of a collective on a network: the library's own schedules, run in virtual time. At
/// 24,576 ranks a ring makes 10^9 steps. Repeated work is computed once (system.hpp, run.hpp), and
/// too much work is refused with the reason. It is pure: the same question gets the same answer.

#include <cstddef>
#include <cstdint>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"
#include "sim/network.hpp"
#include "sim/run.hpp"

namespace ccoll::sim {

struct SimulateOptions {
  /// Every rank and window by itself, in the order of time. Tests check shortcuts against it.
  bool plain = false;
  /// More messages or bytes than these are refused.
  std::uint64_t max_messages = 10'000'000'000;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
  /// With more messages than this, all blocks count as long as the longest if equal blocks make the
  /// ranks alike: see Simulated::count.
  std::uint64_t max_messages_unlike = 5'000'000;
  /// Limit on the steps to run, of the ranks that stand for all. For longer calls whose windows do
  /// not repeat, see Simulated::windows_run.
  std::uint64_t max_steps = 10'000'000;
  /// Refused if the fewest windows that give an answer take more steps than this.
  std::uint64_t max_steps_in_all = 200'000'000;
};

struct Simulated {
  Choice choice;
  /// Simulated elements: the problem's, or the next multiple of the number of blocks.
  std::uint64_t count = 0;
  std::uint64_t messages = 0;  ///< for all ranks and windows
  Rank kept = 0;               ///< ranks that stand for all
  std::uint64_t windows = 0;
  /// 0: the outcome is that of all windows. Otherwise windows kept drifting against each other.
  /// Whole calls with this many windows and with half as many were simulated, and the outcome
  /// continues the line through them. (In the long run, work grows with the windows; filling and
  /// emptying the pipeline does not.)
  std::uint64_t windows_run = 0;
  Outcome outcome;
};

/// The library's choice for that algorithm on such a network; `problem` must be placed_on it. Fails
/// with unsupported if the algorithm does not apply.
Result<Choice> choose_on(const Network& network, const Problem& problem, std::size_t elem_bytes,
                         Algorithm algorithm);

/// Takes blocks of equal sizes; `problem` must be placed_on the network. Fails with unsupported if
/// it needs more messages or memory than allowed, with invalid_argument for ragged blocks.
Result<Simulated> simulate(const Network& network, const Problem& problem, std::size_t elem_bytes,
                           const Choice& choice, const SimulateOptions& options = {});

}  // namespace ccoll::sim
