// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part by which its ranks find out which of them are left: its side of a roll
/// call (control/roll_call.hpp).

#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/failures/failures.hpp"
#include "comm/groups/births.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/progress.hpp"
#include "control/control.hpp"
#include "core/result.hpp"

namespace ccoll {

class Survivors {
 public:
  Survivors(const Self& self, const Progress& progress, const Failures& failures, Births& births)
      : self_(self), progress_(progress), failures_(failures), births_(births) {}

  /// Admits a thread to shrink, one at a time; Births::end_shrink() ends it. The roll call leaves
  /// out the `excluded` (ascending).
  Result<RollCall> begin(const Ranks& excluded);
  /// The ranks that are not gone; every rank gets the same list. An exception ends the attempt on
  /// the other ranks, too: they wait for this one.
  Result<std::vector<Rank>> find(const RollCall& call, std::chrono::milliseconds timeout);

 private:
  Result<std::vector<Rank>> call_roll(const RollCall& asked, std::chrono::milliseconds timeout);
  /// Waits until the roll call is over; an error says why this rank stopped waiting.
  Status await(const RollCall& call, Headcount& count, std::chrono::milliseconds timeout) const;
  /// The failure for the exception that is being caught.
  Failure cannot_shrink() const;
  Failure lost_patience(const RollCall& call, std::chrono::milliseconds timeout,
                        const std::vector<std::uint32_t>& awaited) const;

  const Self& self_;
  const Progress& progress_;
  const Failures& failures_;
  Births& births_;
};

}  // namespace ccoll
