// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's internals: its parts, their life together, and one round of progress over them.
/// Each part has an idea of its own and says in its header who may use it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/collectives/collective_calls.hpp"
#include "comm/collectives/planner.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/failures/control_news.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/limits.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/group.hpp"
#include "comm/groups/groups.hpp"
#include "comm/groups/member.hpp"
#include "comm/groups/self.hpp"
#include "comm/messages/message_calls.hpp"
#include "comm/progress/fork_notice.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/dumps.hpp"
#include "comm/record/record.hpp"
#include "comm/streams/streams.hpp"
#include "engine/links.hpp"

namespace ccoll {

class Communicator::Implementation final
    : public Progress::Operations,
      public ForkNotice::Listener,
      public std::enable_shared_from_this<Communicator::Implementation> {
 public:
  static Result<std::shared_ptr<Implementation>> make(std::shared_ptr<Member> member,
                                                      std::uint64_t id,
                                                      const CommunicatorOptions& options,
                                                      Group group);
  ~Implementation() override;

  // The parts:
  const Self& self() const { return self_; }
  Progress& progress() { return progress_; }
  CollectiveCalls& calls() { return calls_; }
  MessageCalls& message_calls() { return message_calls_; }
  Streams& streams() { return streams_; }
  const Streams& streams() const { return streams_; }
  Failures& failures() { return failures_; }
  Limits& limits() { return limits_; }
  Waits& waits() { return waits_; }
  Comparison& comparison() { return comparison_; }
  Groups& groups() { return groups_; }
  Dumps& dumps() { return dumps_; }
  ControlNews& control_news() { return control_news_; }
  Record& record() { return record_; }
  LinkTable& links() { return links_; }
  Collectives& collectives(Owned owned) { return calls_.queue(owned); }
  Messages& messages(Owned owned) { return message_calls_.messages(owned); }

  const Planner& planner() const { return planner_; }
  bool shares_memory() const { return shares_memory_; }
  bool is_closed() const { return closed_.load(); }

  /// Holds the owner flag (owner.hpp).
  class Owner;
  /// Waits for the flag. Throws if this thread is inside a reduction's function that one of this
  /// communicator's calls invoked: the wait would never end.
  Owned wait_to_own();

  // Progress::Operations:
  bool busy(Owned owned) const override {
    return !calls_.queue(owned).empty() || message_calls_.messages(owned).busy() ||
           streams_.calls().busy(owned);
  }
  bool advance(Owned owned, Attention attention) override;
  Clock::time_point supervise(Owned owned, Clock::time_point now) override;
  std::vector<Rank> awaited(Owned owned, const Work::State& work) const noexcept override;
  void slept(Owned owned, std::vector<Rank> awaited, Clock::duration time) noexcept override;
  bool has_reached() const override { return streams_.calls().has_reached(); }
  void threw(Owned owned, const Failure& failure) override { failures_.threw(owned, failure); }

  /// Whether nothing is under way and nothing wrong: a short call may be made at once.
  bool is_calm(Owned owned) const {
    return !busy(owned) && !calls_.queue(owned).is_blocking() && failures_.verdict().is_calm() &&
           !is_closed();
  }

  /// Aborts if anything of this rank is under way; otherwise does nothing. Takes the owner flag.
  void end_work(std::string_view reason);
  /// Ends the calls of all ranks. Any thread may call it; it takes no owner flag.
  void abort(std::string_view reason);
  /// Ends all that is under way with `aborted`; the rank leaves if this is its last communicator.
  /// Only the first call acts. Returns a failure that no call has reported, for which it waits
  /// briefly unless `is_told` is false.
  Status close(bool is_told = true);
  /// Counts what was sent and received, and losses to other ranks. Takes the owner flag.
  Counters counters();

  /// In a forked child: users of this copy get an error, and the parent's resources are left alone.
  void forked() override;

 private:
  Implementation(std::shared_ptr<Member> member, std::uint64_t id,
                 const CommunicatorOptions& options, Group group, std::shared_ptr<Waiter> waiter);
  /// Does the steps of make() that may fail after other ranks can hear of it.
  Status make_whole();
  void configure();

  const Self self_;
  Planner planner_;             // immutable after make
  bool shares_memory_ = false;  // immutable after make: all ranks do
  bool subscribed_ = false;     // immutable after make: control knows it
  std::atomic<bool> closed_{false};
  Record record_{
      {self_.job(), self_.id(), self_.name(), self_.rank(), self_.size(), self_.job_rank()}};
  LinkTable links_;
  Progress progress_;
  Failures failures_{*this, record_};
  Comparison comparison_{*this, record_, failures_.verdict()};
  CollectiveCalls calls_{*this, record_, comparison_};
  MessageCalls message_calls_;
  Streams streams_;
  Limits limits_{*this, self_, failures_};
  Dumps dumps_{*this, record_};
  Waits waits_{*this, record_.history(), record_.recorder()};
  Groups groups_{*this, self_.id()};
  ControlNews control_news_{*this};
  const ForkNotice fork_notice_{*this};  // last: needs all the others
};

}  // namespace ccoll
