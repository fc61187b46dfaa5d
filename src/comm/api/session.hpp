// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One communicator, on one rank: its parts, their life together, and one round of progress over
/// them. Each part has an idea of its own and says in its header who may use it.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/collectives/collective_calls.hpp"
#include "comm/collectives/planner.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/failures/control_news.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/limits.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/births.hpp"
#include "comm/groups/exchange.hpp"
#include "comm/groups/group.hpp"
#include "comm/groups/groups.hpp"
#include "comm/groups/member.hpp"
#include "comm/groups/self.hpp"
#include "comm/groups/survivors.hpp"
#include "comm/messages/message_calls.hpp"
#include "comm/progress/fork_notice.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/dumps.hpp"
#include "comm/record/record.hpp"
#include "comm/streams/device_programs.hpp"
#include "comm/streams/streams.hpp"
#include "comm/under_way.hpp"

namespace ccoll {

class Session final : public Progress::Operations,
                      public Failures::Audience,
                      public ForkNotice::Listener,
                      public std::enable_shared_from_this<Session> {
 public:
  static Result<std::shared_ptr<Session>> make(std::shared_ptr<Member> member, std::uint64_t id,
                                               const CommunicatorOptions& options, Group group);
  ~Session() override;

  // The parts:
  const Self& self() const { return self_; }
  const Planner& planner() const { return planner_; }
  Progress& progress() { return progress_; }
  UnderWay& under_way() { return under_way_; }
  CollectiveCalls& calls() { return calls_; }
  MessageCalls& message_calls() { return message_calls_; }
  const DevicePrograms& device_programs() const { return device_programs_; }
  Streams& streams() { return streams_; }
  const Streams& streams() const { return streams_; }
  Failures& failures() { return failures_; }
  Exchange& exchange() { return exchange_; }
  Groups& groups() { return groups_; }
  Dumps& dumps() { return dumps_; }
  ControlNews& control_news() { return control_news_; }

  bool is_closed() const { return failures_.verdict().is_closed(); }

  // Progress::Operations:
  bool busy(Owned owned) const override { return under_way_.busy(owned); }
  bool advance(Owned owned, Attention attention) override;
  Clock::time_point supervise(Owned owned, Clock::time_point now) override;
  std::vector<Rank> awaited(Owned owned, const Work::State& work) const noexcept override {
    return under_way_.awaited(owned, work);
  }
  void slept(Owned owned, std::vector<Rank> awaited, Clock::duration time) noexcept override {
    record_.slept(owned, std::move(awaited), time);
  }
  bool has_reached() const override { return under_way_.has_reached(); }
  Status may_wait() const override { return self_.called_from_outside(); }
  void threw(Owned owned, const Failure& failure) override { failures_.threw(owned, failure); }

  // Failures::Audience:
  void breaks(Owned owned) noexcept override;
  void broke(Owned owned, bool first) override;
  void heard(const Failure& failure) override;
  void departed(std::uint32_t rank, std::optional<Rank> here) override {
    comparison_.departed(rank, here);
  }

  /// Aborts if anything of this rank is under way; otherwise does nothing. Takes the owner flag.
  void end_work(std::string_view reason);
  /// Ends the calls of all ranks. Any thread may call it; it takes no owner flag.
  void abort(std::string_view reason);
  /// Ends all that is under way with `aborted`; the rank leaves if this is its last communicator.
  /// Only the first call acts. Returns a failure that no call has reported. Unless `is_told`, it
  /// neither waits for one nor makes progress.
  Status close(bool is_told = true);
  /// Counts what was sent and received, and losses to other ranks. Takes the owner flag.
  Counters counters();

  /// In a forked child: users of this copy get an error, and the parent's resources are left alone.
  void forked() override;

 private:
  Session(std::shared_ptr<Member> member, std::uint64_t id, const CommunicatorOptions& options,
          Group group, std::shared_ptr<Waiter> waiter);
  /// Does the steps of make() that may fail after other ranks can hear of it.
  Status make_whole();
  void configure();
  /// Makes another one of this rank's, for Groups.
  Result<Child> make_child(std::uint64_t id, const CommunicatorOptions& options, Group group) const;

  // A part uses those before it. Plans, which CollectiveCalls has, end before their links.
  const Self self_;
  Planner planner_;          // immutable after make
  bool subscribed_ = false;  // immutable after make: control knows it
  Record record_{
      {self_.job(), self_.id(), self_.name(), self_.rank(), self_.size(), self_.job_rank()}};
  Progress progress_;
  UnderWay under_way_;
  Births births_{self_.id()};
  Failures failures_{self_, progress_, record_, under_way_, *this};
  Waits waits_{self_, under_way_, record_};
  Comparison comparison_{self_, progress_, record_, under_way_, failures_.verdict()};
  Limits limits_{self_, progress_, under_way_, failures_, waits_, comparison_, births_};
  Dumps dumps_{self_, progress_, record_, under_way_, failures_};
  ControlNews control_news_{
      self_, progress_, record_.history(), {failures_, dumps_, comparison_, waits_, births_}};
  CollectiveCalls calls_{
      {self_, planner_, progress_, record_, under_way_, failures_, limits_, waits_, comparison_}};
  MessageCalls message_calls_{
      {self_, planner_, progress_, record_, under_way_, failures_, limits_}};
  Exchange exchange_{self_, progress_, calls_};
  DevicePrograms device_programs_{
      {self_, planner_, progress_, failures_, exchange_, under_way_.in_streams()}};
  Streams streams_{
      {self_, progress_, under_way_, failures_, calls_, message_calls_, device_programs_}};
  Survivors survivors_{self_, progress_, failures_, births_};
  Groups groups_{{self_, progress_, failures_, calls_, exchange_, births_, survivors_,
                  [this](std::uint64_t id, const auto& options, Group group) {
                    return make_child(id, options, std::move(group));
                  }}};
  const ForkNotice fork_notice_{*this};  // last: needs all the others
};

}  // namespace ccoll
