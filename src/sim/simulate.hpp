// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How long a collective takes on a network: the library's own schedules, run in virtual time. At
/// 24,576 ranks a ring makes 10^9 steps; what is alike is computed once (system.hpp, run.hpp), and
/// what is too much is refused with the reason. Pure: the same answer for the same question.

#include <cstddef>
#include <cstdint>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"
#include "sim/network.hpp"
#include "sim/run.hpp"

namespace ccoll::sim {

struct SimulateOptions {
  /// Every rank and window by itself, everything in the order of time: what shortcuts are held to.
  bool plain = false;
  /// Refused beyond that.
  std::uint64_t max_messages = 10'000'000'000;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
  /// With more messages than these, blocks of which some are an element longer are all taken to be
  /// as long as the longest, where that makes ranks alike: see Simulated::count.
  std::uint64_t max_messages_unlike = 5'000'000;
  /// Steps to be carried out, of the ranks that stand for all. Beyond them, where windows do not
  /// come to repeat themselves, see Simulated::windows_run.
  std::uint64_t max_steps = 10'000'000;
  /// Refused where the fewest windows that give an answer take more steps than these.
  std::uint64_t max_steps_in_all = 200'000'000;
};

struct Simulated {
  Choice choice;
  /// Elements that were simulated: the problem's, or the next multiple of the number of blocks.
  std::uint64_t count = 0;
  std::uint64_t messages = 0;  ///< of all ranks and windows
  Rank kept = 0;               ///< ranks that stand for all
  std::uint64_t windows = 0;
  /// 0: the outcome is that of all windows. Else windows go on drifting against each other, and of
  /// so many and of half as many whole calls were simulated: the outcome continues the line through
  /// them. (In the long run, work grows with the windows; what filling and emptying the pipeline
  /// takes does not.)
  std::uint64_t windows_run = 0;
  Outcome outcome;
};

/// What the library would choose for that algorithm on such a network; `problem` is placed_on it.
/// Fails with unsupported when the algorithm does not apply.
Result<Choice> choose_on(const Network& network, const Problem& problem, std::size_t elem_bytes,
                         Algorithm algorithm);

/// Blocks of equal sizes only; `problem` is placed_on the network. Fails with unsupported where it
/// would take more messages or memory than allowed, and with invalid_argument for ragged blocks.
Result<Simulated> simulate(const Network& network, const Problem& problem, std::size_t elem_bytes,
                           const Choice& choice, const SimulateOptions& options = {});

}  // namespace ccoll::sim
