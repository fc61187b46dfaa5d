// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's part of a team's program as a stream can run it: one row of steps, each of which
/// waits for words, combines by kernels that never wait, and writes words. Pure; knows no CUDA.
///
/// All ranks derive one order of all steps of all ranks in which each comes after whatever it waits
/// for; each runs its own steps in that order. So one stream per rank is enough: the first step of
/// all that is not done yet can always go on.
///
/// A channel has two words: pushed counts the slices that its sender has written, popped those that
/// its receiver has read. Both begin and end a call as 0, so that the values waited for are
/// constants of the program: who pops the last slice resets pushed before it says so, and the
/// sender's call ends with waiting for that and resetting popped.
///
/// What the schedule lends of a rank's scratch is read there; what it lends of the caller's buffers
/// is read there if the rank can lend these, which it alone knows and only when it is called: steps
/// say both, the slot and the place (lending.hpp). All else is the same, so that it makes no
/// difference to the order.

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// Where bytes lie.
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

/// A caller's buffer of which slices may be lent.
struct StepBuffer {
  StepPlace::In in = StepPlace::In::shared;  ///< `shared`: there is none
  bool if_separate = false;                  ///< not where input and output share memory
  bool is_any() const { return in != StepPlace::In::shared; }
};

/// Where a source lies.
struct StepSource {
  StepPlace place;
  StepBuffer lent;  ///< of the slot's owner; if that lends it, `place` is not read, but …
  std::uint64_t lent_offset = 0;  ///< … this place of it
};

/// A word of a channel, by what all programs of the same ranks call it.
struct StepWord {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t link = 0;  ///< which of the channels from the one to the other
  bool popped = false;
  std::uint32_t value = 0;  ///< to be reached, or written
};

/// Several sources combined into one stretch of memory.
struct StepFold {
  Range sources;
  StepPlace out;
  std::uint64_t bytes = 0;
  std::uint32_t divisor = 1;
  bool is_to_slot = false;
  StepBuffer lent;  ///< of this rank; if that lends it, the fold is left out
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
  /// In order; the last only waits for what this rank has sent, and resets words.
  std::vector<RankStep> steps;
  std::vector<StepWord> words;
  std::vector<StepFold> folds;
  std::vector<StepSource> sources;
  /// What each rank's shared memory must hold at least, the same for all.
  std::uint64_t shared_bytes = 0;
  /// Channels from one rank to another, the most there are of any two.
  std::uint32_t links = 0;
};

/// Counts in words stay below it, so that a word which holds it lets everything go on.
inline constexpr std::uint32_t kReleased = 1U << 30;

/// Of a program that was lowered without lending and words; `internal` where its steps wait for
/// each other in a circle, which the verifier refuses.
Result<RankSteps> steps_of(const LoweredTeam& team, std::uint32_t rank);

}  // namespace ccoll::device
