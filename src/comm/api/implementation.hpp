// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's internals: its operations, who makes progress on them, and what happens when
/// one fails. communicator.cpp checks the arguments.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "ccoll/communicator.hpp"
#include "comm/api/call.hpp"
#include "comm/failures/comparison.hpp"
#include "comm/failures/departures.hpp"
#include "comm/failures/verdict.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/group.hpp"
#include "comm/groups/groups.hpp"
#include "comm/groups/member.hpp"
#include "comm/messages/messages.hpp"
#include "comm/progress/collectives.hpp"
#include "comm/progress/fork_notice.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/plan_cache.hpp"
#include "comm/progress/planner.hpp"
#include "comm/progress/repeats.hpp"
#include "comm/progress/spin_policy.hpp"
#include "comm/progress/sweep.hpp"
#include "comm/progress/turns.hpp"
#include "comm/record/dumps.hpp"
#include "comm/record/record.hpp"
#include "comm/streams/streams.hpp"
#include "engine/links.hpp"
#include "engine/plan.hpp"
#include "system/log.hpp"

namespace ccoll {

class Background;

class Communicator::Implementation final
    : public ControlObserver,
      public ForkNotice::Listener,
      public std::enable_shared_from_this<Communicator::Implementation> {
 public:
  static Result<std::shared_ptr<Implementation>> make(std::shared_ptr<Member> member,
                                                      std::uint64_t id,
                                                      const CommunicatorOptions& options,
                                                      Group group);
  ~Implementation() override;

  Rank rank() const { return group_.rank(); }
  Rank size() const { return group_.size(); }
  const Group& group() const { return group_; }
  std::uint64_t job() const { return member_->control().job(); }
  std::uint32_t job_rank() const { return member_->rank(); }
  const std::string& name() const { return name_; }
  /// Fails if this thread is inside a reduction's function that one of this communicator's calls
  /// invoked: a wait for that call would never end.
  Status called_from_outside() const;
  /// Returns the failure as the caller sees it: the call's label and the communicator's name come
  /// first, the culprit's rank here comes last. Apply it once, on the way to the caller; failures
  /// passed on inside, and between ranks, have none of these.
  Failure for_caller(Failure failure, std::string_view label = {}) const;
  /// Returns the value, or throws the failure as the caller sees it.
  template <typename T>
  T value_or_raise(Result<T> result, std::string_view label = {}) const {
    if (!result) raise(for_caller(std::move(result.error()), label));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  const Planner& planner() const { return planner_; }
  const CommunicatorOptions& options() const { return options_; }
  std::uint64_t id() const { return id_; }
  Result<std::string> transport_to(Rank peer) const;

  /// Holds the owner flag (owner.hpp).
  class Owner;

  /// Puts a checked call into the queue of collectives.
  Result<std::shared_ptr<Work::State>> begin(Owned owned, const Call& call);
  /// Sets messages going, arguments already checked.
  Status begin(Owned owned, std::span<const std::shared_ptr<MessageOperation>> operations,
               std::chrono::milliseconds timeout);
  /// Returns the message that such a probe finds at this moment.
  Result<std::optional<Received>> look(Owned owned, const Pattern& pattern);
  /// Begins it and waits until it is over. alone() must hold before.
  Status run(Owned owned, const Call& call);
  /// Fails if a thread is in a blocking collective of this communicator.
  Status alone(Owned owned, const Call& call) const { return collectives_(owned).alone(call); }
  // repeat.cpp
  /// Makes a blocking collective that differs from a recent one only in its buffers. It is done on
  /// return, or put into options.unfinished; a failure is thrown. Returns false if the call has to
  /// be made the general way. Takes the owner flag.
  bool repeat(const Outline& asked, const Blocks& blocks, const CallOptions& options);
  /// Remembers that `operation` was `call`, to repeat it once it has ended well.
  void remember(Owned owned, const Call& call, std::shared_ptr<CollectiveOperation> operation);

  // message_calls.cpp: the short way of blocking calls of short messages. They return false, or
  // nothing, if the call has to be made the general way.
  bool send_short(Owned owned, const MessageRequest& request, const Pattern& to);
  std::optional<Received> recv_short(Owned owned, const MessageRequest& request,
                                     const Pattern& from);

  /// Waits until the collective of a blocking call is over; returns its failure, if any.
  Status finish(Owned owned, const Work::State& work);

  /// Calls in CUDA streams.
  Streams& streams() { return streams_; }
  const Streams& streams() const { return streams_; }
  /// The text of Communicator::error(): empty while there is no failure.
  std::string first_error() const;
  /// The failure that ended it, as far as this rank knows; from any thread.
  std::optional<Failure> first_failure() const;

  /// Communicators made from this one.
  Groups& groups() { return groups_; }

  /// Makes progress until all are done or `limit` has passed; false in the latter case.
  bool wait(Owned owned, const Work::State& work, Clock::time_point limit);
  /// Makes one round of progress, unless another thread is making it.
  void poll();
  /// Aborts if anything of this rank is under way; otherwise does nothing. Takes the owner flag.
  void end_work(std::string_view reason);
  /// Ends the calls of all ranks. Any thread may call it; it takes no owner flag.
  void abort(std::string_view reason);
  /// Ends all that is under way with `aborted`; the rank leaves if this is its last communicator.
  /// Only the first call acts. Returns a failure that no call has reported, for which it waits
  /// briefly unless `is_told` is false.
  Status close(bool is_told = true);
  const std::shared_ptr<net::Service>& service() const { return member_->service(); }

  /// Dumps of its flight recorder.
  Dumps& dumps() { return dumps_; }

  // counting.cpp
  /// Takes the owner flag.
  Counters counters();
  /// The ranks that a thread waiting for `work` waits for at present; from receives, only named
  /// ranks. A rank may be listed twice.
  std::vector<Rank> awaited(Owned owned, const Work::State& work) const noexcept;
  void note_sleep(Owned /*owned*/, std::vector<Rank> awaited, Clock::duration time) noexcept {
    record_.slept(std::move(awaited), time);
  }

  // ControlObserver, on the service thread:
  void failed(std::uint64_t communicator, const Failure& failure) override;
  void left(std::uint32_t rank) override;
  void lost(std::uint32_t rank, const Failure& failure) override;
  std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) override {
    return comparison_.compare(peer, waiting);
  }
  bool has_begun(std::uint64_t sequence) override { return record_.history().calls() > sequence; }
  void in_cycle(std::uint64_t sequence, const std::string& cycle) override {
    waits_.stands().note_cycle(sequence, cycle);
  }

  // In a forked child: users of this copy get an error, and the parent's resources are left alone.
  void forked() override;

  // For Background, on the service thread:
  std::optional<Owned> try_own() { return turns_.try_own(); }
  void disown(Owned owned) { turns_.disown(owned); }
  /// Releases the flag with nothing under way. If a stream has reached a call meanwhile, nobody
  /// else would begin it: its thread saw that a turn is due, or that the flag is held.
  void disown_idle(Owned owned) {
    disown(owned);
    if (has_reached()) [[unlikely]]
      begin_what_is_reached();
  }
  bool has_reached() const { return streams_.calls().has_reached(); }
  void begin_what_is_reached();
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }
  bool busy(Owned owned) const {
    return !collectives_(owned).empty() || messages_(owned).busy() || streams_.calls().busy(owned);
  }
  /// Whether a thread waits for the owner flag: a waiting owner then lets it in.
  bool wanted() const { return turns_.is_wanted(); }
  /// Makes one round over all operations; true if anything moved. The last round before a sleep
  /// attends to every rank. An exception breaks the communicator, because callers must not free
  /// buffers that an operation still uses.
  bool progress(Owned owned, Messages::Attention attention = Messages::Attention::awaited);
  /// Looks at deadlines and at the ranks waited for; returns when to look again.
  Clock::time_point supervise(Owned owned, Clock::time_point now);
  /// Breaks the communicator on all ranks: progress threw (out of memory, or a defect).
  void threw(Owned owned, const Failure& failure);
  /// The same outside of progress: `call` threw half-way, and the other ranks would wait for it.
  /// Takes the owner flag; throws.
  [[noreturn]] void call_threw(std::string_view call, Failure failure, std::string_view label);
  Waiter& waiter() { return *waiter_; }

  // For its parts:
  Collectives& collectives(Owned owned) { return collectives_(owned); }
  Messages& messages(Owned owned) { return messages_(owned); }
  const LinkTable& links() const { return links_; }
  Stands& stands() { return waits_.stands(); }
  /// `asked` is the call's signature.
  Result<std::shared_ptr<Plan>> plan_for(Owned owned, const Call& call, const Signature& asked);
  Status usable(Owned owned);
  const std::optional<Failure>& broken(Owned /*owned*/) const { return verdict_.broken(); }
  /// The failure that the control path has reported.
  std::optional<Failure> news() const;
  std::optional<Failure> heard_without_culprit() const { return verdict_.heard_without_culprit(); }
  /// Makes a shortage or an exception here a failure of this rank, to tell the others.
  Failure failed_here(const Failure& failure) const;
  static Failure destroyed();
  bool is_closed() const { return closed_.load(); }
  std::string ranks_text(const std::vector<Rank>& ranks) const;
  std::string name_of(const CollectiveOperation& operation) const;
  std::string name_of(std::uint64_t sequence, const Signature& signature,
                      std::string_view label) const;
  const std::shared_ptr<Member>& member() const { return member_; }
  Control& control() const { return member_->control(); }
  /// Ends every operation with `failure`; `tell`: also on the other ranks.
  void break_with(Owned owned, const Failure& failure, bool tell);
  /// Returns the optional from `step`; nothing if it throws, which breaks the communicator.
  template <typename Step>
  auto guarded(Owned owned, Step step) -> decltype(step()) {
    try {
      return step();
    } catch (...) {
      threw(owned, failure_of(std::current_exception()));
      return std::nullopt;
    }
  }

 private:
  Implementation(std::shared_ptr<Member> member, std::uint64_t id,
                 const CommunicatorOptions& options, Group group, std::shared_ptr<Waiter> waiter);
  /// Does the steps of make() that may fail after other ranks can hear of it.
  Status make_whole();
  void configure();

  Owned own() {
    const auto owned = try_own();
    return owned ? *owned : wait_to_own();
  }
  Owned wait_to_own();
  /// Releases the flag while operations are under way.
  void release_to_background(Owned owned);

  void sleep(Owned owned, const Work::State& work, Clock::time_point now, Clock::time_point until);
  /// Whether nothing under way can go on before the Background wakes anyway.
  bool left_to_background(Owned owned);
  Clock::time_point look_at_limits(Owned owned, Clock::time_point now);

  /// Sets its plan and its run, except for the sequence number.
  Status make_ready(Owned owned, const Call& call, CollectiveOperation& operation);
  /// Numbers the call; all calls before it must have their numbers.
  Status number(Owned owned, CollectiveOperation& operation);
  /// Starts the time limit of a call in a stream when the stream has reached it.
  void limit_gated(Owned owned, CollectiveOperation& operation, Clock::time_point now);
  void set_limit(Operation& operation, Clock::time_point now,
                 std::chrono::milliseconds timeout) const;
  /// Whether neighbours have published calls that are to be compared.
  bool record(Owned /*owned*/, const Signature& signature) {
    record_.call_begins(signature);
    return comparison_.has_any_ahead();
  }
  bool advance_collective(Owned owned);
  /// Handles a failure of the first one in the queue.
  void collective_failed(Owned owned, Failure failure);

  /// Whether nothing is under way and nothing wrong.
  bool calm(Owned owned) const {
    return !busy(owned) && !collectives_(owned).is_blocking() && verdict_.is_calm() &&
           !closed_.load(std::memory_order_relaxed);
  }
  /// Waits until the link has taken a pushed message.
  void flush(Owned owned, const MessageRequest& request, const Pattern& to);

  // repeat.cpp
  void compare_or_raise(Owned owned);
  /// Polls for a moment, until it is done or has failed; `is_brief`: for a shorter moment.
  Plan::Polled poll(Owned owned, Plan& plan, bool is_brief);
  Result<std::shared_ptr<Work::State>> queue_repeated(
      Owned owned, const std::shared_ptr<CollectiveOperation>& operation, Plan::Polled polled);

  /// Runs before operations end with it.
  void note_failure(Owned owned, const Failure& failure) noexcept;

  // failures.cpp
  /// Ends devices' calls at once; the next progress ends the others with it, if it is the first.
  void hear(const Failure& failure);
  void failed(Owned owned, Failure failure);
  /// Breaks with `failure` when `grace` is over, unless the control path brings a cause.
  void suspect(Owned owned, Failure failure, Clock::duration grace);
  /// The same in a forked child, where links and files are the parent's.
  void break_copy(Owned owned, const Failure& failure);
  /// True if the news breaks the communicator. `may_wait`: while anything moves, calls that a
  /// rank's loss has ended elsewhere may still end well here, with data that has arrived.
  bool take_news(Owned owned, bool may_wait = false);
  /// Tells the links which ranks have gone.
  void take_departures(Owned owned);
  /// Notes that this rank of the job has gone.
  void depart(std::uint32_t rank, Departure how, const Failure& why);
  /// Ends everything: a rank is lost, and calls under way, or the next one, need it.
  void end_by_loss(Owned owned, const Failure& loss);
  /// The loss that blocks everything; nothing while anything may move. `next`: as in long_gone().
  std::optional<Failure> ending_loss(Owned owned, Clock::time_point now,
                                     Clock::time_point& next) const;
  // limits.cpp
  void publish(Owned owned, CollectiveOperation& operation, Clock::time_point now);
  bool supervise_collective(Owned owned, CollectiveOperation& operation, Clock::time_point now,
                            Clock::time_point& next);
  void supervise_messages(Owned owned, Clock::time_point now, Clock::time_point& next);
  /// The failure of a call that waits only for `gone` ranks whose links were never connected.
  std::optional<Failure> in_vain(Owned owned, const std::vector<Rank>& gone) const;

  const std::shared_ptr<Member> member_;
  const std::uint64_t id_;
  const CommunicatorOptions options_;
  const Group group_;
  const std::string name_;
  Planner planner_;         // immutable after make
  bool in_memory_ = false;  // immutable after make: all ranks share memory
  /// Limit of a blocking message on the short way. Over wires, the general way places a longer
  /// message as it arrives, which the short way cannot.
  std::size_t most_short_bytes() const { return in_memory_ ? kMaxEagerBytes : 4 << 10; }
  bool subscribed_ = false;  // immutable after make: control knows it
  const std::shared_ptr<Waiter> waiter_;

  std::atomic<bool> closed_{false};
  Turns turns_;  ///< by its own remarks
  // owner: holder of the owner flag, down to the next remark
  Record record_{{job(), id_, name_, rank(), size(), job_rank()}};
  LinkTable links_;
  OwnersOnly<PlanCache> plans_;
  OwnersOnly<Collectives> collectives_;
  OwnersOnly<Messages> messages_;
  Streams streams_;  ///< by its own tags
  Verdict verdict_;  ///< by its own remarks
  OwnersOnly<Sweep> sweep_;
  OwnersOnly<Repeats> repeats_;
  std::byte barrier_[2] = {};               ///< the buffers of barriers
  std::shared_ptr<Background> background_;  // immutable after make

  std::atomic<bool> forked_{false};  // set before verdict_ has news, in a child that has one thread
  Departures departures_;
  Dumps dumps_{*this, record_};
  Comparison comparison_{*this, record_, verdict_};
  Waits waits_{*this, record_.history(), record_.recorder()};
  Groups groups_{*this, id_};
  const ForkNotice fork_notice_{*this};  // last: needs all the others
};

}  // namespace ccoll
