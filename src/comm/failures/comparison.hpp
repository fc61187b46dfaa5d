// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that finds out whether its ranks make the same calls: what they tell each
/// other, during long waits and at the end, and the failure that names both sides.

#include <cstdint>
#include <optional>

#include "comm/collectives/collective_operation.hpp"
#include "comm/failures/calls_ahead.hpp"
#include "comm/failures/farewells.hpp"
#include "comm/failures/verdict.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/record.hpp"
#include "comm/under_way.hpp"
#include "control/control.hpp"

namespace ccoll {

class Comparison {
 public:
  Comparison(const Self& self, Progress& progress, Record& record, const UnderWay& under_way,
             Verdict& verdict)
      : self_(self),
        progress_(progress),
        record_(record),
        under_way_(under_way),
        verdict_(verdict) {}

  /// A peer, rank `from` here, has published a call, asks or answers. On the service thread; as
  /// ControlObserver's.
  std::optional<Failure> compare(Rank from, const Waiting& waiting);
  /// Whether neighbours have published calls that this rank has yet to make.
  bool has_any_ahead() const { return ahead_.has_any(); }
  /// Compares the calls so far with those that neighbours published earlier.
  Status compare_with_ahead();
  /// A slice that no call here expected; if the rank `closes`, unless last calls tell more.
  std::optional<Failure> unread(Owned owned, bool closes) const;
  /// A slice showed that its sender makes another call: the failure waits for that call's label.
  void ask_for_label(Owned owned, const CollectiveOperation& operation, Failure failure);

  /// Publishes the end of calls; `compared`: with the last calls, which ring neighbours compare.
  void publish_end(bool compared);
  /// Waits until peers have this rank's or it has theirs; after private sizes, until all have
  /// closed.
  void await_last_calls();
  /// This rank of the job has gone; `here`: its rank here, if it has one.
  void departed(std::uint32_t rank, std::optional<Rank> here);
  /// Nothing of the others is worth waiting for any more.
  void end_farewells() { farewells_.end(); }
  void forget_locks() {
    farewells_.forget_lock();
    ahead_.forget_lock();
  }

 private:
  /// Compares this rank's call with the one that a peer has published.
  std::optional<Failure> difference(Rank peer, const Waiting& waiting) const;
  /// Notes that this rank of the job has closed; rank 0 tells the others once all have.
  void note_closed(std::uint32_t rank);

  const Self& self_;
  Progress& progress_;
  Record& record_;
  const UnderWay& under_way_;
  Verdict& verdict_;
  CallsAhead ahead_;
  Farewells farewells_;
};

}  // namespace ccoll
