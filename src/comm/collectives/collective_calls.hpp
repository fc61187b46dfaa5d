// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that makes collectives of calls whose arguments are right: finds the plan,
/// numbers the call, runs it in its turn, and makes recent calls again the short way.

#include <cstddef>
#include <memory>

#include "comm/api/call.hpp"
#include "comm/collectives/collective_operation.hpp"
#include "comm/collectives/collectives.hpp"
#include "comm/collectives/plan_cache.hpp"
#include "comm/collectives/repeats.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/record/record.hpp"
#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

class CollectiveCalls {
 public:
  CollectiveCalls(Communicator::Implementation& communicator, Record& record,
                  Comparison& comparison)
      : communicator_(communicator), record_(record), comparison_(comparison) {}

  /// Makes a blocking collective that differs from a recent one only in its buffers. It is done on
  /// return, or put into options.unfinished; a failure is thrown. Returns false if the call has to
  /// be made the general way. For threads that do not hold the owner flag.
  bool repeat(const Outline& asked, const Blocks& blocks, const CallOptions& options);

  // For the holder of the owner flag:

  /// Fails if a thread is in a blocking collective of this communicator, and `call` is another.
  Status alone(Owned /*owned*/, const Call& call) const { return queue_.alone(call); }
  /// Puts a call into the queue.
  Result<std::shared_ptr<Work::State>> begin(Owned owned, const Call& call);
  /// Waits until the collective of a blocking call is over; returns its failure, if any.
  Status finish(Owned owned, const Work::State& work);
  /// Begins it and waits until it is over.
  Status run(Owned owned, const Call& call);
  /// Remembers that `operation` was `call`, to repeat it once it has ended well.
  void remember(Owned owned, const Call& call, std::shared_ptr<CollectiveOperation> operation);
  /// `asked` is the call's signature.
  Result<std::shared_ptr<Plan>> plan_for(Owned owned, const Call& call, const Signature& asked);
  /// Advances the first one in the queue; true if it moved.
  bool advance(Owned owned);
  Collectives& queue(Owned /*owned*/) { return queue_; }
  const Collectives& queue(Owned /*owned*/) const { return queue_; }
  /// Adds what the plans have sent and received so far.
  void add_traffic(Owned /*owned*/, TrafficTable& table) const { plans_.add_traffic(table); }

 private:
  /// Sets its plan and its run, except for the sequence number.
  Status make_ready(Owned owned, const Call& call, CollectiveOperation& operation);
  /// Numbers the call; all calls before it must have their numbers.
  Status number(CollectiveOperation& operation);
  /// Notes that a call begins; whether neighbours have published calls that are to be compared.
  bool record(const Signature& signature) {
    record_.call_begins(signature);
    return comparison_.has_any_ahead();
  }
  /// Handles a failure of the first one in the queue.
  void failed(Owned owned, Failure failure);

  // repeat.cpp
  void compare_or_raise(Owned owned);
  /// Polls for a moment, until it is done or has failed; `is_brief`: for a shorter moment.
  Plan::Polled poll(Owned owned, Plan& plan, bool is_brief);
  Result<std::shared_ptr<Work::State>> queue_repeated(
      Owned owned, const std::shared_ptr<CollectiveOperation>& operation, Plan::Polled polled);

  Communicator::Implementation& communicator_;
  Record& record_;
  Comparison& comparison_;
  PlanCache plans_;
  Collectives queue_;
  Repeats repeats_;
  std::byte barrier_[2] = {};  ///< the buffers of barriers
};

}  // namespace ccoll
