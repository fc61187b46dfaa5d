// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for time limits: it looks at operations while they wait, and ends them
/// when their time is over or when they wait for ranks that have left.

#include <chrono>
#include <optional>
#include <vector>

#include "comm/collectives/collective_operation.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/births.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/progress/sweep.hpp"
#include "comm/under_way.hpp"
#include "core/result.hpp"

namespace ccoll {

class Limits {
 public:
  Limits(const Self& self, Progress& progress, UnderWay& under_way, Failures& failures,
         Waits& waits, Comparison& comparison, const Births& births)
      : self_(self),
        progress_(progress),
        under_way_(under_way),
        failures_(failures),
        waits_(waits),
        comparison_(comparison),
        births_(births) {}

  /// Begins an operation's time; `timeout` 0: the communicator's.
  void set(Owned owned, Operation& operation, Clock::time_point now,
           std::chrono::milliseconds timeout) const;
  void set(Owned owned, CollectiveOperation& operation, Clock::time_point now,
           std::chrono::milliseconds timeout) const;
  /// Begins the time of a call in a stream when the stream has reached it.
  void set_gated(Owned owned, CollectiveOperation& operation, Clock::time_point now) const;
  /// Ends everything if it is time to believe what is suspected; true if so. Lowers `next` to when
  /// to look again.
  bool end_suspicion(Owned owned, Clock::time_point now, Clock::time_point& next);
  /// Looks at deadlines and at the ranks waited for; returns when to look again, at most `next`.
  Clock::time_point look(Owned owned, Clock::time_point now, Clock::time_point next);

 private:
  /// True if the look has ended everything. Lowers `next` to when to look again.
  bool look_at(Owned owned, CollectiveOperation& operation, Clock::time_point now,
               Clock::time_point& next);
  void look_at_messages(Owned owned, Clock::time_point now, Clock::time_point& next);
  /// Tells the ring's neighbours in which call this rank waits.
  void publish(Owned owned, CollectiveOperation& operation, Clock::time_point now);
  /// The failure of a call that waits only for `gone` ranks whose links were never connected.
  std::optional<Failure> in_vain(Owned owned, const std::vector<Rank>& gone) const;

  const Self& self_;
  Progress& progress_;
  UnderWay& under_way_;
  Failures& failures_;
  Waits& waits_;
  Comparison& comparison_;
  const Births& births_;
  Sweep sweep_;
};

}  // namespace ccoll
