// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of one rank's communicator without the communicator: links inside this process, a
/// control path that only notes what it is asked for, and a clock that the test moves. Nothing here
/// waits, and no other thread takes part.

#include <algorithm>
#include <asio/io_context.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/collectives/collective_calls.hpp"
#include "comm/collectives/planner.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/failures/control_news.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/limits.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/births.hpp"
#include "comm/groups/exchange.hpp"
#include "comm/groups/groups.hpp"
#include "comm/groups/member.hpp"
#include "comm/groups/self.hpp"
#include "comm/groups/survivors.hpp"
#include "comm/messages/message_calls.hpp"
#include "comm/progress/owner.hpp"
#include "comm/record/dumps.hpp"
#include "comm/streams/device_programs.hpp"
#include "comm/streams/streams.hpp"
#include "comm/under_way.hpp"

namespace ccoll::test {

/// Notes what it is asked for, in order.
class NotedControl final : public Control {
 public:
  struct Published {
    Waiting waiting;
    std::vector<std::uint32_t> to;
  };
  struct Flooded {
    std::uint64_t communicator;
    Failure failure;
  };

  /// The table says `each` of every rank.
  explicit NotedControl(std::uint32_t size, const PeerAddress& each = {}) : table_(size, each) {}

  void accept(net::Stream /*stream*/) override {}
  Status join(Store& /*store*/) override { return {}; }
  const std::vector<PeerAddress>& table() const override { return table_; }
  const std::string& rank0_text() const override { return text_; }
  std::uint64_t job() const override { return job_number; }
  void subscribe(std::uint64_t /*communicator*/,
                 std::weak_ptr<ControlObserver> /*observer*/) override {}
  void unsubscribe(std::uint64_t /*communicator*/) override {}
  void settle() override {
    if (on_settle) on_settle();
  }
  void flood(std::uint64_t communicator, const Failure& failure) override {
    floods.push_back({communicator, failure});
    if (on_flood) on_flood();
  }
  void publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks) override {
    published.push_back({waiting, ranks});
  }
  void tell_waits(std::uint64_t /*communicator*/, std::vector<OpenWait> open) override {
    waits = std::move(open);
  }
  void seek_cycle(std::uint64_t /*communicator*/, std::uint64_t sequence) override {
    sought.push_back(sequence);
  }
  void probe(const std::vector<std::uint32_t>& ranks) override {
    probes.push_back(ranks);
    if (on_probe) on_probe();
  }
  void call_roll(const RollCall& call, std::shared_ptr<Headcount> count) override {
    rolls.push_back(call);
    count_ = std::move(count);
    if (on_roll) on_roll(*count_);
  }
  void give_up(const RollCall& /*call*/, const Failure& why) override {
    given_up.push_back(why);
    if (on_give_up) on_give_up(*count_);
  }
  bool has_failed(std::uint64_t communicator) const override {
    return std::ranges::find(floods, communicator, &Flooded::communicator) != floods.end();
  }
  void leave() override {}
  Statistics statistics() const override { return {}; }

  /// The kinds of what was published to that rank of the job, and forgets all.
  std::vector<int> kinds_told(std::uint32_t rank) {
    std::vector<int> kinds;
    for (const auto& [waiting, to] : std::exchange(published, {}))
      if (std::ranges::find(to, rank) != to.end()) kinds.push_back(waiting.signature.kind);
    return kinds;
  }

  std::uint64_t job_number = 1;
  std::vector<Published> published;
  std::vector<Flooded> floods;
  std::vector<OpenWait> waits;  ///< as last told
  std::vector<std::uint64_t> sought;
  std::vector<std::vector<std::uint32_t>> probes;
  std::vector<RollCall> rolls;
  std::vector<Failure> given_up;
  std::function<void()> on_flood, on_settle;
  std::function<void(Headcount&)> on_roll, on_give_up;  ///< answer a roll call, and its end
  std::function<void()> on_probe;

 private:
  const std::vector<PeerAddress> table_;
  const std::string text_;
  std::shared_ptr<Headcount> count_;
};

/// The time that the parts see.
inline std::atomic<Clock::time_point> shown_time{Clock::time_point{std::chrono::hours(1)}};
inline Clock::time_point now_shown() { return shown_time; }
inline void pass(Clock::duration time) { shown_time = now_shown() + time; }

/// No machine has so many GPUs: a rank whose GPU this is has none.
inline constexpr int kNoSuchGpu = 1000;

/// Ranks with the same communicator reach each other.
class Parts : public Progress::Operations, public Failures::Audience {
 public:
  /// Rank `rank` of `group.size()`, whose numbers in the job `group` has.
  Parts(Rank rank, std::vector<std::uint32_t> group, std::uint64_t communicator,
        const CommunicatorOptions& options = {}, const PeerAddress& each = {})
      : Parts(std::make_shared<NotedControl>(1 + std::ranges::max(group), each), nullptr,
              communicator, options, Group(group, group[rank])) {}
  /// A communicator that `parent`'s rank makes, with the same control path and transports.
  Parts(const Parts& parent, std::uint64_t communicator, const CommunicatorOptions& options,
        const Group& group)
      : Parts(parent.control, parent.self.member(), communicator, options, group) {}
  virtual ~Parts() {
    {
      const Owner owned(progress);
      if (!failures.broken(owned)) failures.break_with(owned, Failures::destroyed(), false);
    }
    progress.stop();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// The communicator as its maker sees it.
  static Child as_child(const std::shared_ptr<Parts>& parts) {
    return {{parts, nullptr}, parts->self, parts->failures.verdict(), parts->news, parts->groups};
  }

  // Each takes the owner flag; the caller does not hold it.

  /// The failure that broke it, if one has.
  std::optional<Failure> broken() {
    const Owner owned(progress);
    return failures.broken(owned);
  }
  /// Lets time pass, a tenth of it before each look at the limits.
  void look_for(Clock::duration time) {
    for (int step = 0; step < 10; step++) {
      pass(time / 10);
      look();
    }
  }
  /// Looks at the limits.
  void look() {
    const Owner owned(progress);
    supervise(owned, now_shown());
  }
  /// How often this rank was made to look.
  std::uint32_t rings() { return progress.waiter().doorbell()->rings(); }
  /// One round over what is under way; true if anything moved.
  bool round() {
    const Owner owned(progress);
    return advance(owned, Attention::everyone);
  }

  /// Begins a receive of one byte.
  std::shared_ptr<MessageOperation> begin_recv(std::optional<Rank> from,
                                               std::chrono::milliseconds timeout = {}) {
    return begin(MessageOperation::What::recv, from, timeout);
  }
  std::shared_ptr<MessageOperation> begin(MessageOperation::What what, std::optional<Rank> peer,
                                          std::chrono::milliseconds timeout = {},
                                          std::uint32_t tag = 7) {
    auto operation = std::make_shared<MessageOperation>();
    operation->what = what;
    operation->pattern = {peer, tag};
    operation->bytes = 1;
    operation->input = operation->output = &byte_;
    if (what != MessageOperation::What::send) operation->received.emplace();
    const Owner owned(progress);
    REQUIRE(message_calls.begin(owned, std::vector{operation}, timeout));
    return operation;
  }
  /// Begins a sum of `values` over all ranks, in place.
  std::shared_ptr<Work::State> begin_sum(std::vector<float>& values, std::string_view label = {}) {
    return begin(sum_of(values, label));
  }
  std::shared_ptr<Work::State> begin(const Call& call) {
    const Owner owned(progress);
    auto begun = calls.begin(owned, call);
    REQUIRE(begun);
    return *begun;
  }
  static Call sum_of(std::vector<float>& values, std::string_view label = {}) {
    Call call;
    call.input.data = call.output.data = reinterpret_cast<std::byte*>(values.data());
    call.count = values.size();
    call.type = DataType::float32;
    call.op = ReduceOp::sum;
    call.in_place = true;
    call.label = label;
    return call;
  }

  // Progress::Operations:
  bool busy(Owned owned) const override { return under_way.busy(owned); }
  bool advance(Owned owned, Attention attention) override {
    if (failures.verdict().has_news() && failures.take_news(owned)) return true;
    const auto& verdict = failures.verdict();
    bool moved = under_way.in_streams().busy(owned) && streams.advance(owned);
    if (verdict.broken(owned) || verdict.suspicion(owned)) return false;
    moved |= !under_way.collectives(owned).empty() && calls.advance(owned);
    if (verdict.broken(owned) || verdict.suspicion(owned)) return false;
    auto messages_moved = under_way.messages(owned).advance(attention);
    if (!messages_moved) return failures.failed(owned, messages_moved.error()), false;
    moved |= *messages_moved;
    if (under_way.in_streams().busy(owned)) moved |= streams.advance(owned);
    if (moved) progress.move(owned);
    return moved;
  }
  Clock::time_point supervise(Owned owned, Clock::time_point now) override {
    progress.turns(owned).look(now);
    auto next = now + std::chrono::seconds(1);
    if (limits.end_suspicion(owned, now, next)) return next;
    return limits.look(owned, now, next);
  }
  std::vector<Rank> awaited(Owned owned, const Work::State& work) const noexcept override {
    return under_way.awaited(owned, work);
  }
  void slept(Owned /*owned*/, std::vector<Rank> /*awaited*/,
             Clock::duration /*time*/) noexcept override {}
  bool has_reached() const override { return false; }
  Status may_wait() const override { return {}; }
  void threw(Owned owned, const Failure& failure) override { failures.threw(owned, failure); }

  // Failures::Audience:
  void breaks(Owned owned) noexcept override {
    heard_of.emplace_back("breaks");
    dumps.keep_standing(owned);
  }
  void broke(Owned /*owned*/, bool first) override {
    heard_of.emplace_back(first ? "broke" : "broke again");
  }
  void heard(const Failure& failure) override { heard_of.push_back("heard " + failure.message); }
  void departed(std::uint32_t rank, std::optional<Rank> here) override {
    heard_of.push_back("departed " + std::to_string(rank) +
                       (here ? " as " + std::to_string(*here) : ""));
  }

  std::vector<std::string> heard_of;  ///< as the failures' audience
  /// Makes the communicators that the groups ask for.
  std::function<Result<Child>(std::uint64_t id, const CommunicatorOptions& options, Group group)>
      make_child;

 private:
  /// Null: a member of its own.
  Parts(std::shared_ptr<NotedControl> noted, std::shared_ptr<Member> member,
        std::uint64_t communicator, const CommunicatorOptions& options, const Group& group)
      : control(std::move(noted)),
        self(member ? std::move(member) : member_of(group.job_rank(group.rank()), control),
             communicator, options, group) {
    progress.start(context_, held_, {});
    const Owner owned(progress);
    under_way.messages(owned).record(&record.recorder(owned), nullptr);
  }
  static std::shared_ptr<Member> member_of(std::uint32_t job_rank,
                                           const std::shared_ptr<NotedControl>& control) {
    TransportContext context;
    context.rank = job_rank;
    context.table = control->table();
    return std::make_shared<Member>(job_rank, control,
                                    std::make_shared<TransportSet>(context, "inproc"));
  }

  std::byte byte_{};
  asio::io_context context_;  // nobody runs it
  const std::shared_ptr<Waiter> waiter_ = Waiter::make().value();

 public:
  const std::shared_ptr<NotedControl> control;
  const Self self;
  Planner planner{{.rank = self.rank(), .size = self.size()}};
  Record record{{self.job(), self.id(), self.name(), self.rank(), self.size(), self.job_rank()}};
  Progress progress{*this, waiter_, &now_shown};
  UnderWay under_way{self, progress, waiter_};
  Births births{self.id()};
  Failures failures{self, progress, record, under_way, *this};
  Waits waits{self, under_way, record};
  Comparison comparison{self, progress, record, under_way, failures.verdict()};
  Survivors survivors{self, progress, failures, births};
  Limits limits{self, progress, under_way, failures, waits, comparison, births};
  Dumps dumps{self, progress, record, under_way, failures};
  ControlNews news{self, progress, record.history(), {failures, dumps, comparison, waits, births}};
  CollectiveCalls calls{
      {self, planner, progress, record, under_way, failures, limits, waits, comparison}};
  MessageCalls message_calls{{self, planner, progress, record, under_way, failures, limits}};
  Exchange exchange{self, progress, calls};
  DevicePrograms device_programs{
      {self, planner, progress, failures, exchange, under_way.in_streams()}};
  Streams streams{{self, progress, under_way, failures, calls, message_calls, device_programs}};
  Groups groups{{self, progress, failures, calls, exchange, births, survivors,
                 [this](std::uint64_t id, const auto& options, Group group) {
                   return make_child(id, options, std::move(group));
                 }}};

 private:
  const std::shared_ptr<Progress> held_{&progress, [](Progress*) {}};
};

}  // namespace ccoll::test
