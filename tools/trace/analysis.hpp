// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the records of all ranks say of one call together: which step received what another sent,
/// who waited for whom, and the chain of steps that made the call as long as it was. Pure.

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

/// That the records name only lanes and steps that the programs have.
Status check(const WholeCall& call);

/// The problem that a call solved, whole (see Problem): `planned` with the ragged blocks' sizes, as
/// far as any rank knew them. Nothing where a size stands in no record.
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
  std::size_t unmatched = 0;  ///< sent and not received or the other way, as far as records go
};

/// Links keep the order, so the first that was sent over one is the first that was received.
/// `call` is checked.
Passings passings_of(const WholeCall& call);

/// For how long a rank had at least one step that waited for that.
struct Wait {
  Rank rank = 0;
  Rank peer = 0;
  Awaited what = Awaited::message;
  std::uint64_t ns = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// What a rank waited for in a call, but for its own steps; longest first.
std::vector<Wait> waits_of(Rank rank, const CallRun& run);

/// A stretch of the critical path, which ends where the next begins.
struct PathPiece {
  enum class Cause : std::uint8_t {
    began,    ///< the rank began the call: the path's first piece
    turn,     ///< it was next, when the rank had done the step before
    message,  ///< the piece before sent what it received
    room,     ///< the piece before took from a full link
    step,     ///< the piece before is a step of another lane that it comes after
  };
  StepPlace step;
  Cause cause = Cause::turn;
  std::uint64_t begin = 0;  ///< the piece before had done its part
  std::uint64_t moved = 0;  ///< it waited no longer
  std::uint64_t end = 0;    ///< it had done its own part
};

/// From the beginning of some rank's call to the last step that ended: each piece is what kept the
/// next one longest. Empty where nothing is recorded.
std::vector<PathPiece> critical_path(const WholeCall& call, const Passings& passings);

}  // namespace ccoll::trace
