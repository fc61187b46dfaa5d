// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that makes collectives of calls whose arguments are right: finds the plan,
/// numbers the call, runs it in its turn, and makes recent calls again the short way.

#include <cstddef>
#include <memory>

#include "comm/call/call.hpp"
#include "comm/collectives/collective_operation.hpp"
#include "comm/collectives/collectives.hpp"
#include "comm/collectives/plan_cache.hpp"
#include "comm/collectives/planner.hpp"
#include "comm/collectives/repeats.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/limits.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/record.hpp"
#include "comm/streams/in_stream.hpp"
#include "comm/under_way.hpp"
#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

class CollectiveCalls {
 public:
  /// The parts that calls are made with.
  struct With {
    const Self& self;
    const Planner& planner;
    Progress& progress;
    Record& record;
    UnderWay& under_way;
    Failures& failures;
    const Limits& limits;
    Waits& waits;
    Comparison& comparison;
  };
  explicit CollectiveCalls(const With& with) : with_(with) {}

  /// Makes a blocking collective that differs from a recent one only in its buffers. It is done on
  /// return, or put into options.unfinished; a failure is thrown. Returns false if the call has to
  /// be made the general way. The buffers are the host's, and no group of calls is open. For
  /// threads that do not hold the owner flag.
  bool repeat(const Outline& asked, const Blocks& blocks, const CallOptions& options);

  // For the holder of the owner flag:

  /// Fails if a thread is in a blocking collective of this communicator, and `call` is another.
  Status alone(Owned owned, const Call& call) const { return queue(owned).alone(call); }
  /// Makes plans of short calls, and of a long one, and drops them, in a job that opens links
  /// ahead. They bring the code of first calls into the caches, and open the links of those calls.
  void rehearse(Owned owned);
  /// Puts a call into the queue.
  Result<std::shared_ptr<Work::State>> begin(Owned owned, const Call& call,
                                             const InStream& in_stream = {});
  /// Begins it and waits until it is over, without releasing the flag in between.
  Result<std::shared_ptr<Work::State>> run(Owned owned, const Call& call);
  /// Remembers that `operation` was `call`, to repeat it once it has ended well.
  void remember(Owned owned, const Call& call, std::shared_ptr<CollectiveOperation> operation);
  /// `asked` is the call's signature.
  Result<std::shared_ptr<Plan>> plan_for(Owned owned, const Call& call, const Signature& asked);
  /// Advances the first one in the queue; true if it moved.
  bool advance(Owned owned);
  /// Adds what the plans have sent and received so far.
  void add_traffic(Owned /*owned*/, TrafficTable& table) const { plans_.add_traffic(table); }

 private:
  /// Sets its plan and its run, except for the sequence number.
  Status make_ready(Owned owned, const Call& call, const InStream& in_stream,
                    CollectiveOperation& operation);
  /// The same for the host's part of a call that devices make: a barrier.
  Status make_ready_beside(Owned owned, Algorithm algorithm, CollectiveOperation& operation);
  /// Numbers the call; all calls before it must have their numbers.
  Status number(Owned owned, CollectiveOperation& operation);
  /// Notes that a call begins; whether neighbours have published calls that are to be compared.
  bool record(Owned owned, const Signature& signature) {
    with_.record.call_begins(owned, signature);
    return with_.comparison.has_any_ahead();
  }
  /// Returns the failure of a blocking call that is over, if it has failed.
  Result<std::shared_ptr<Work::State>> over(Owned owned,
                                            Result<std::shared_ptr<Work::State>> finished);
  /// Handles a failure of the first one in the queue.
  void failed(Owned owned, Failure failure);

  // repeat.cpp
  void compare_or_raise(Owned owned);
  /// Polls for a moment, until it is done or has failed; `is_brief`: for a shorter moment.
  Plan::Polled poll(Owned owned, Plan& plan, bool is_brief);
  Result<std::shared_ptr<Work::State>> queue_repeated(
      Owned owned, const std::shared_ptr<CollectiveOperation>& operation, Plan::Polled polled);

  Collectives& queue(Owned owned) const { return with_.under_way.collectives(owned); }

  const With with_;
  PlanCache plans_;
  Repeats repeats_;
  std::byte barrier_[2] = {};  ///< the buffers of barriers
};

}  // namespace ccoll
