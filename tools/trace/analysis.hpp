// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Conclusions from all ranks' records of one call: which step received which step's slice, which
/// ranks waited for which, and the chain of steps that determined the call's duration. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/result.hpp"
#include "schedule/schedule.hpp"
#include "trace/read.hpp"

namespace ccoll::trace {

/// One call by all ranks, on one clock.
struct WholeCall {
  std::vector<Program> programs;              ///< by rank
  std::vector<std::optional<CallRun>> ranks;  ///< none: that rank's record lacks the call
};

/// Checks that the records name only lanes and steps of the programs.
Status check(const WholeCall& call);

/// The whole problem of a call (see Problem): `planned` with the ragged blocks' sizes, as far as
/// any rank knew them. Empty if a size is in no record.
std::optional<Problem> whole_problem(const Planned& planned, const WholeCall& call);

/// Step `index` of a rank's record.
struct StepPlace {
  Rank rank = 0;
  std::size_t index = 0;
  friend bool operator==(const StepPlace&, const StepPlace&) = default;
  friend auto operator<=>(const StepPlace&, const StepPlace&) = default;
};

/// A slice that was sent and received.
struct Passed {
  StepPlace from;
  StepPlace to;
  friend bool operator==(const Passed&, const Passed&) = default;
};

struct Passings {
  std::vector<Passed> all;    ///< by receiving step
  std::size_t unmatched = 0;  ///< sent but not received, or vice versa, as far as records go
};

/// Links are ordered, so the first slice sent over one is the first received. `call` must have been
/// checked.
Passings passings_of(const WholeCall& call);

/// How long a rank had at least one step waiting for that.
struct Wait {
  Rank rank = 0;
  Rank peer = 0;
  Awaited what = Awaited::message;
  std::uint64_t ns = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// A rank's waits in a call, except for its own steps; longest first.
std::vector<Wait> waits_of(Rank rank, const CallRun& run);

/// A section of the critical path, which ends where the next begins.
struct PathPiece {
  enum class Cause : std::uint8_t {
    began,    ///< the rank began the call: the path's first piece
    turn,     ///< the rank had done the step before
    message,  ///< the piece before sent the data that it received
    room,     ///< the piece before took from a full link
    step,     ///< the piece before is a step of another lane that must come first
  };
  StepPlace step;
  Cause cause = Cause::turn;
  std::uint64_t begin = 0;  ///< the piece before was done
  std::uint64_t moved = 0;  ///< its wait was over
  std::uint64_t end = 0;    ///< it was done
};

/// From the beginning of some rank's call to the last step that ended: each piece is the one that
/// delayed the next most. Empty if nothing is recorded.
std::vector<PathPiece> critical_path(const WholeCall& call, const Passings& passings);

}  // namespace ccoll::trace
