// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's part of a team's program as a stream can run it: a row of steps. Each step waits for
/// words, combines by kernels that never wait, and writes words. Pure; knows no CUDA.
///
/// All ranks derive the same order of all ranks' steps, in which each step comes after all that it
/// waits for. Each rank runs its own steps in that order. So one stream per rank is enough: the
/// first step in the order that is not done can always run.
///
/// A channel has two words: pushed counts the slices that its sender has written, popped those that
/// its receiver has read. Both are 0 at the beginning and the end of a call, so the values waited
/// for are constants of the program. The receiver resets pushed before it reports the last slice as
/// popped. The sender's call ends by waiting for that report and resetting popped.
///
/// A slice that the schedule lends from a rank's scratch is read there. A slice lent from a
/// caller's buffer is read there if the rank can lend the buffer, which only that rank knows, and
/// only when it is called. So steps name both the slot and the place (lending.hpp). The rest is the
/// same either way, and so is the order.

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// The place of some bytes.
struct StepPlace {
  enum class In : std::uint8_t {
    input,   ///< of the rank's own call
    output,  ///< of the rank's own call
    shared   ///< of `rank`: memory that all ranks map, for slots and scratch
  };
  In in = In::input;
  std::uint32_t rank = 0;
  std::uint64_t offset = 0;
};

/// A caller's buffer whose slices may be lent.
struct StepBuffer {
  StepPlace::In in = StepPlace::In::shared;  ///< `shared`: there is none
  bool if_separate = false;                  ///< not where input and output share memory
  bool is_any() const { return in != StepPlace::In::shared; }
};

/// The place of a source.
struct StepSource {
  StepPlace place;
  StepBuffer lent;  ///< the slot owner's buffer; if it is lent, not `place` is read, but …
  std::uint64_t lent_offset = 0;  ///< … this place in it
};

/// A word of a channel, named alike by all programs of the same ranks.
struct StepWord {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t link = 0;  ///< which of the channels from `from` to `to`
  bool popped = false;
  std::uint32_t value = 0;  ///< the value to wait for, or to write
};

/// Several sources combined into one stretch of memory.
struct StepFold {
  Range sources;
  StepPlace out;
  std::uint64_t bytes = 0;
  std::uint32_t divisor = 1;
  bool is_to_slot = false;
  StepBuffer lent;  ///< this rank's buffer; if it is lent, the fold is left out
};

struct RankStep {
  Range waits;   ///< words, each of which must have reached its value
  Range folds;   ///< one after another
  Range writes;  ///< words, one after another
  std::uint32_t lane = 0;
  std::uint32_t number = 0;  ///< in its lane
  std::uint64_t window = 0;
};

struct RankSteps {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  /// In order. The last one only waits until all that this rank has sent is read, and resets words.
  std::vector<RankStep> steps;
  std::vector<StepWord> words;
  std::vector<StepFold> folds;
  std::vector<StepSource> sources;
  /// The least size of each rank's shared memory, the same for all.
  std::uint64_t shared_bytes = 0;
  /// The most channels from any one rank to any other.
  std::uint32_t links = 0;
};

/// Counts in words stay below it, so a word that holds it releases every wait.
inline constexpr std::uint32_t kReleased = 1U << 30;

/// `team` must be lowered without lending and words. `internal` if its steps wait for each other in
/// a circle, which the verifier refuses.
Result<RankSteps> steps_of(const LoweredTeam& team, std::uint32_t rank);

}  // namespace ccoll::device
