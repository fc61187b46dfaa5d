// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's inside: its operations, who makes progress on them, and what happens when one
/// fails. Argument checks are communicator.cpp's.

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "ccoll/communicator.hpp"
#include "comm/api/call.hpp"
#include "comm/failures/departures.hpp"
#include "comm/failures/different_calls.hpp"
#include "comm/failures/farewells.hpp"
#include "comm/failures/labels.hpp"
#include "comm/failures/stands.hpp"
#include "comm/groups/group.hpp"
#include "comm/groups/making.hpp"
#include "comm/groups/member.hpp"
#include "comm/messages/messages.hpp"
#include "comm/progress/fork_notice.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/spin_policy.hpp"
#include "comm/progress/sweep.hpp"
#include "comm/record/dump/dump.hpp"
#include "comm/record/flight_recorder.hpp"
#include "comm/record/history.hpp"
#include "comm/record/losses.hpp"
#include "comm/record/tracing.hpp"
#include "comm/streams/device_ways.hpp"
#include "comm/streams/stream_calls.hpp"
#include "engine/links.hpp"
#include "engine/plan.hpp"
#include "system/log.hpp"

namespace ccoll {

class Background;
class DumpSignal;
namespace device {
class ExchangeDoor;
struct DoorAddress;
}  // namespace device

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
  /// That this thread is not in the middle of a reduction's function that one of its calls has
  /// called: whatever waits for that call would wait for ever.
  Status called_from_outside() const;
  /// The failure as the caller of a call with that label is told: the label and the communicator's
  /// name in front, the culprit's rank in it at the end. Once, where it goes to the caller: what is
  /// handed on inside, and what ranks tell each other, has none of these.
  Failure for_caller(Failure failure, std::string_view label = {}) const;
  /// The value, or the failure thrown as the caller is told.
  template <typename T>
  T value_or_raise(Result<T> result, std::string_view label = {}) const {
    if (!result) raise(for_caller(std::move(result.error()), label));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  Work begun_or_throw(Result<Work> work, const CallOptions& options) const {
    return value_or_raise(std::move(work), options.label);
  }
  const CostTable& costs() const { return costs_; }
  /// What the communicator's options and then `algorithm` ask for.
  Forced forced(std::optional<Algorithm> algorithm) const;
  bool is_deterministic() const { return options_.deterministic; }
  /// What such a call is planned as.
  Problem problem_of(const Call& call) const;
  Result<std::string> transport_to(Rank peer) const;

  /// Holds the owner flag. Whoever holds it makes progress; on release, what is still under way
  /// goes on in the background.
  class Owner {
   public:
    explicit Owner(Implementation& communicator) : communicator_(communicator) {
      if (!communicator_.try_own()) communicator_.wait_to_own();
    }
    /// Of a flag that its thread has already.
    Owner(Implementation& communicator, std::adopt_lock_t) : communicator_(communicator) {}
    ~Owner() {
      if (communicator_.busy_as_owner())
        communicator_.release_to_background();
      else
        communicator_.disown_idle();
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

   private:
    Implementation& communicator_;
  };

  /// Puts an operation into its queue.
  Result<std::shared_ptr<Operation>> begin_as_owner(const Call& call);
  /// Sets messages going, arguments already checked.
  Status begin_as_owner(std::span<const std::shared_ptr<MessageOperation>> operations,
                        std::chrono::milliseconds timeout);
  /// What such a probe finds now.
  Result<std::optional<Received>> look_as_owner(const Pattern& pattern);
  /// Begins it and waits until it is over; `alone_as_owner` holds before.
  Status run_as_owner(const Call& call);
  /// That no thread is in a blocking collective of this communicator.
  Status alone_as_owner(const Call& call) const;
  // repeat.cpp
  /// A blocking collective that is like one of the last, all but for its buffers: done, when it
  /// returns, or put into `unfinished`; throws its failure. False if it has to be made as if there
  /// had been none. Takes the owner flag.
  bool repeat(const PlainCall& call, Work* unfinished);
  /// That `operation` was `call`. It is made again once it has ended well.
  void remember_as_owner(const Call& call, std::shared_ptr<CollectiveOperation> operation);

  // message_calls.cpp: the short way of blocking calls of short messages. False, or nothing: to be
  // made as if there had been no short way.
  bool send_short_as_owner(const MessageRequest& request, const Pattern& to);
  std::optional<Received> recv_short_as_owner(const MessageRequest& request, const Pattern& from);

  /// Until the collective is over, as part of a blocking call; its failure, if any.
  Status finish_as_owner(const Work::State& work);

  // stream_submission.cpp: calls in CUDA's streams, arguments already checked. Without the owner
  // flag.

  /// Whether a call without a stream takes place in one all the same: memory of a device is among
  /// the buffers, or devices make it, as the other ranks' may be such memory.
  bool is_for_streams(const Call& call) const;
  bool is_for_streams(const void* input, const void* output) const;
  /// Whether they are posted when a stream has come to them: some are of a device's memory, or
  /// stand behind such.
  bool come_by_streams(std::span<const MessageRequest> requests) const;
  /// Nothing as the stream: one of our own, behind the default stream.
  Result<Work> begin_in_stream(Call call, std::optional<cudaStream_t> stream);
  /// In a stream of the communicator's own, until it is over: throws its failure.
  Status run_in_stream(const Call& call);
  Result<Work> begin_in_stream(std::vector<std::shared_ptr<MessageOperation>> operations,
                               std::chrono::milliseconds timeout,
                               std::optional<cudaStream_t> stream);
  /// Which way devices make them, and why.
  const DeviceWayPick& device_way() const { return device_way_; }
  bool has_device_way() const { return stream_calls_.device_way() != nullptr; }
  /// What a device has made is not whole.
  void device_failed_as_owner(const Failure& failure);
  /// The same of requests that are yet to be checked (message_calls.cpp).
  Result<Work> begin_in_stream(std::string_view call, std::span<const MessageRequest> requests,
                               const CallOptions& options);
  /// From a thread of CUDA: the call is to begin.
  void stream_reached(std::shared_ptr<StreamCall> call) noexcept;
  /// Of Communicator::error(), which is empty where there is no failure yet.
  std::string first_error() const;
  /// What ended it, as far as this rank knows; from any thread.
  std::optional<Failure> first_failure() const;

  // groups.cpp: calls that serve others, and communicators from this one. Each takes the owner
  // flag.

  /// For calls that cannot wait for a group's end; `shown_as` is what its signature says.
  Status run_for(std::uint8_t shown_as, Call call);
  /// output: everyone's `bytes` at `input`, by rank. `shown_root`: also of the signature.
  Status exchange(std::uint8_t shown_as, const void* input, void* output, std::size_t bytes,
                  const CallOptions& options = {}, Rank shown_root = 0);

  /// That all ranks gave the same `text`; else a mismatch, naming both sides. Collective.
  Status agree(std::uint8_t shown_as, const std::string& text);
  Result<std::shared_ptr<Implementation>> duplicate(const GroupOptions& options);
  /// Null for a rank without a colour.
  Result<std::shared_ptr<Implementation>> split(int color, int key, const GroupOptions& options);
  Result<std::shared_ptr<Implementation>> subgroup(std::span<const int> ranks,
                                                   const GroupOptions& options);

  /// Of the ranks that are still there, by their agreement; also from a broken communicator.
  /// Without the `excluded`, ascending, whether they are there or not.
  Result<std::shared_ptr<Implementation>> shrink(const GroupOptions& options, Ranks excluded = {});

  /// Until all are done, or `limit` has passed: false then. Makes progress meanwhile.
  bool wait_as_owner(const Work::State& work, Clock::time_point limit);
  /// One round of progress, if nobody else is making it.
  void poll();
  /// Does nothing where nothing of this rank is under way, else what abort does; takes the owner
  /// flag.
  void end_work(std::string_view reason);
  /// Ends the calls of all ranks; on any thread, and takes no owner flag.
  void abort(std::string_view reason);
  /// No more calls: what is under way fails with `aborted`, and the rank leaves if this was its
  /// last communicator. Once. Fails with what no call has told, as the caller is told; to know that
  /// it waits for a moment, unless there is nobody to tell (`is_told`).
  Status close(bool is_told = true);
  const std::shared_ptr<net::Service>& service() const { return member_->service(); }

  // dumping.cpp
  /// What the flight recorder holds, as JSON. Takes the owner flag.
  std::string dump();
  /// Writes it to CCOLL_DUMP's directory, if there is one. Where somebody else has the owner flag
  /// it returns at once, and they do it, or the service thread later.
  void request_dump(std::string reason);

  // counting.cpp
  /// Takes the owner flag.
  Counters counters();
  /// Whom a thread that waits for `work` waits for now; of receives, those that name a rank. Ranks
  /// may stand there twice.
  std::vector<Rank> awaited_as_owner(const Work::State& work) const noexcept;
  void note_sleep_as_owner(std::vector<Rank> awaited, Clock::duration time) noexcept;

  // ControlObserver, on the service thread:
  void failed(std::uint64_t communicator, const Failure& failure) override;
  void left(std::uint32_t rank) override;
  void lost(std::uint32_t rank, const Failure& failure) override;
  std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) override;
  bool has_begun(std::uint64_t sequence) override { return history_.calls() > sequence; }
  void in_cycle(std::uint64_t sequence, const std::string& cycle) override;

  // In a forked child: whoever uses this copy is told so, and what the parent has is left alone.
  void forked() override;

  // For Background, on the service thread:
  bool try_own() { return owner_.try_take(); }
  void disown() { owner_.give_back(); }
  /// Of one with nothing under way. What a stream has come to just now finds nobody else to begin
  /// it: who tells of it sees that a turn is due, or that somebody has the flag.
  void disown_idle() {
    disown();
    if (has_reached()) [[unlikely]]
      begin_what_is_reached();
  }
  bool has_reached() const { return stream_calls_.has_reached(); }
  void begin_what_is_reached();
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }
  bool busy_as_owner() const {
    return !collectives_.empty() || messages_.busy() || stream_calls_.busy_as_owner();
  }
  /// Whether a thread waits for the owner flag: whoever waits with it in hand lets it in.
  bool wanted() const { return owner_.waiting() > 0; }
  /// Whether ranks outnumber cores.
  bool oversubscribed() const { return oversubscribed_; }
  /// Whether ranks have a core each, and few have another.
  bool fills_cores() const { return !oversubscribed_ && costs_.cores_per_rank < 2; }
  /// One round over all operations; true if anything moved. The last round before a sleep pays
  /// attention to everyone. What it throws breaks the communicator: callers' buffers must not be
  /// freed while an operation under way still has them.
  bool progress_as_owner(Messages::Attention attention = Messages::Attention::awaited);
  /// Looks at deadlines and at whom we wait for; returns when to look again.
  Clock::time_point supervise_as_owner(Clock::time_point now);
  /// What making progress threw (memory ran out, a defect): the communicator fails everywhere.
  void threw_as_owner(const Failure& failure);
  /// The same outside of progress: what was thrown in the middle of `call`, for which the other
  /// ranks would wait. Takes the owner flag; throws.
  [[noreturn]] void call_threw(std::string_view call, Failure failure, std::string_view label);
  Waiter& waiter() { return *waiter_; }

 private:
  struct SignatureHash {
    std::size_t operator()(const Signature& signature) const;
  };

  /// A blocking collective that can be repeated.
  struct Repeatable {
    PlainCall call;
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    std::shared_ptr<CollectiveOperation> operation;

    /// Whether such a call's buffers are as they have to be.
    bool fits(const PlainCall& like, bool in_place) const;
  };
  static constexpr std::size_t kRepeatables = 64;

  Implementation(std::shared_ptr<Member> member, std::uint64_t id,
                 const CommunicatorOptions& options, Group group, std::shared_ptr<Waiter> waiter);
  /// What may fail once others may hear of it.
  Status make_whole();
  void configure();

  void wait_to_own();
  /// Of what is under way.
  void release_to_background();

  /// Of threads that wait for calls, one has the flag, polls and sleeps; the others rest in the
  /// flag's queue. What moved may have ended their calls, or let them go on: then the flag goes
  /// round, until it comes to one that has looked since. `rested`: movements_ when the thread that
  /// has it last rested.
  bool must_pass_as_owner(std::optional<std::uint64_t> rested) const {
    const auto waiting = owner_.waiting();
    return waiting > resting_ || (waiting > 0 && rested != movements_);
  }
  void sleep_as_owner(const Work::State& work, Clock::time_point now, Clock::time_point until);
  /// Returns with the flag. `limit`: of this thread's patience.
  void rest_as_owner(Clock::time_point limit);
  /// Whether what is under way can go on only when the Background wakes anyway.
  bool left_to_background_as_owner();
  /// The optional that `step` returns; nothing if it throws, which breaks the communicator.
  template <typename Step>
  auto guarded_as_owner(Step step) -> decltype(step()) {
    try {
      return step();
    } catch (...) {
      threw_as_owner(failure_of(std::current_exception()));
      return std::nullopt;
    }
  }
  bool round_as_owner(Messages::Attention attention);
  Clock::time_point look_at_limits_as_owner(Clock::time_point now);

  // device_calls.cpp
  /// Takes what calls in streams need, if this rank has a GPU.
  Status find_device();
  /// How devices make collectives. Collective, where that is by stream steps.
  Status find_device_way();
  void tell_device_way() const;
  Status make_device_way(std::span<const PeerAddress> ranks);
  Status join_team(std::shared_ptr<device::Staging> staging, std::span<const PeerAddress> ranks);
  void take_device_way(std::shared_ptr<device::DeviceWay> way);
  Status make_group(Result<std::shared_ptr<device::Staging>> staging);
  Result<std::shared_ptr<device::DeviceWay>> meet_for_group(
      device::ExchangeDoor& door, std::span<const device::DoorAddress> addresses,
      std::shared_ptr<device::Staging> staging) const;
  /// Everyone's, by rank.
  Status tell_all_at_start(const void* mine, void* everyones, std::size_t bytes);
  /// Of a call that is checked and suits_devices(): what they make it by. Null: the host makes it,
  /// on all ranks. Holds the streams' submission().
  struct OnDevice {
    Algorithm algorithm;
    std::shared_ptr<const device::DeviceProgram> program;
  };
  Result<const OnDevice*> device_program_for(const Call& call);
  Result<OnDevice> load_device_program(const Call& call, const Signature& asked);
  /// What the host does of a call that devices make.
  Status make_ready_beside(Algorithm algorithm, CollectiveOperation& operation);
  /// Nothing: the ranks' streams are captured apart, and all of them have the host make it. Holds
  /// the streams' device_submission(), unless anything of this thread's open group is put off.
  Result<std::optional<Work>> begin_on_device(const Call& call, std::optional<cudaStream_t> stream,
                                              const OnDevice& on_device);
  Clock::time_point limit_of(const Call& call) const;
  /// A call that ranks enter together.
  struct Entering {
    bool is_captured = false;
    Clock::time_point since;
    Clock::time_point limit;  ///< until the stream comes to it, or of one that is captured
  };
  /// As far as it is at `until`.
  Result<device::Entry> enter(device::StreamOp& stream_op, const Entering& entering,
                              Clock::time_point until);
  /// A caller knows from its stream alone that a call is over: the other ranks' hosts may not yet.
  void end_what_devices_made_as_owner();
  /// What kept a call from being entered, or that nothing has until its limit.
  Failure not_entered_as_owner(const Result<device::Entry>& entry, bool is_captured);

  // stream_submission.cpp
  Result<Work> begin_by_host(Call call, std::optional<cudaStream_t> stream);
  /// Divided, if it is large, as its plan has it.
  Result<DividedCall> in_parts(const Call& call);
  /// Puts the host's memory into a call, and says what begins with it at once; nothing where that
  /// begins when the stream has come to it, as it then tells the StreamCall.
  using Prepare = std::function<std::optional<Call>(
      StreamCall&, const std::shared_ptr<device::StreamOp>&, bool is_captured)>;
  /// Of the device that the request's buffers are of, or the rank's.
  Result<device::Staging*> staging_for(const device::StreamOpRequest& request);
  /// Finds out whether the request's stream is captured.
  Result<std::shared_ptr<device::StreamOp>> stream_op(device::StreamOpRequest& request);
  /// Has its place among the communicator's calls, and is yet to be put into its stream.
  struct Submitted {
    Work work;
    std::shared_ptr<StreamCall> call;
    std::shared_ptr<device::StreamOp> stream_op;
    bool is_captured = false;
  };
  /// Holds the streams' submission(), as enqueue() does.
  Result<Submitted> submit(device::StreamOpRequest request, Operations shown,
                           const Prepare& prepare);
  Status enqueue(const Submitted& submitted);
  /// enqueue(), where anything of this thread's open group is put off in its turn behind that.
  Result<Work> put(const Submitted& submitted, std::optional<cudaStream_t> stream,
                   std::string_view label);
  /// One that ranks enter together, in an open group: it enters at the group's end.
  void put_off(const Submitted& submitted, const Call& call, std::optional<cudaStream_t> stream);
  /// The call as it takes its place now, or where it is captured when its graph runs.
  std::optional<Call> begun_in_order(Call& call, StreamCall& in_stream,
                                     const std::shared_ptr<device::StreamOp>& stream_op,
                                     bool is_captured);

  // direct_messages.cpp
  /// Of a message whose buffer is memory of a GPU: whether that is made known to the link that it
  /// goes over, which reads or writes it there. `needs_flush`: set where the stream has to flush
  /// then.
  bool make_direct(MessageOperation& operation, bool& needs_flush);
  /// Once at each level.
  void tell_not_direct(LogLevel level, Rank peer, std::string_view why);

  // groups.cpp
  Result<std::vector<Rank>> subgroup_ranks(std::span<const int> ranks) const;
  Result<std::shared_ptr<Implementation>> make_child(std::uint64_t id,
                                                     const std::vector<Rank>& ranks,
                                                     const GroupOptions& options,
                                                     std::string made_up_name);
  /// What `make_it` makes; where it fails or throws the others hear of it, who have theirs and
  /// would wait for this rank.
  template <typename Make>
  Result<std::shared_ptr<Implementation>> made_or_told(std::uint64_t id, Make make_it);
  /// A subgroup's making ends with this communicator, although it waits in the new one.
  void end_making(const Failure& failure);
  void broke_while_making(const Failure& failure);
  static Failure destroyed() {
    return {ErrorKind::aborted, "the communicator was destroyed", std::nullopt};
  }
  std::uint64_t subgroup_id(std::uint64_t list, std::uint64_t times) const;
  Status meet(Announcement announcement);
  void compare_subgroups(Rank peer, const Waiting& waiting);

  // shrink.cpp
  /// A thread's way into shrink, for which only one has room; ends with end_shrinking.
  Result<RollCall> begin_shrinking(const Ranks& excluded);
  void end_shrinking(const Ranks& excluded, bool well) noexcept;
  /// Those that are not gone, the same for all of them.
  Result<std::vector<Rank>> survivors(const RollCall& call, std::chrono::milliseconds timeout);
  /// The same; what it throws ends the attempt for the others, too, who would wait for this rank.
  Result<std::vector<Rank>> survivors_or_told(const RollCall& call,
                                              std::chrono::milliseconds timeout);
  /// Until the roll call is over; the error is why this rank waits no longer.
  Status await(const RollCall& call, Headcount& count, std::chrono::milliseconds timeout) const;
  /// What is being caught.
  Failure cannot_shrink() const;
  Failure lost_patience(const RollCall& call, std::chrono::milliseconds timeout,
                        const std::vector<std::uint32_t>& awaited) const;
  void abort_shrinking();

  // plans.cpp
  /// What tells plans apart: what was asked for, but for what a plan serves all alike.
  Signature key_of(const Call& call, Signature key) const;
  /// `asked` is the call's signature.
  Result<std::shared_ptr<Plan>> plan_for(const Call& call, const Signature& asked);
  void drop_idle_plans();

  /// Its plan and its run, all but the sequence number.
  Status make_ready(const Call& call, CollectiveOperation& operation);
  Result<std::shared_ptr<Operation>> put_into_queue_as_owner(const Call& call);
  /// Of one before which all have their numbers.
  Status number_as_owner(CollectiveOperation& operation);
  /// The time limit of one in a stream begins when that has come to it.
  void limit_gated_as_owner(CollectiveOperation& operation, Clock::time_point now);
  Status put_into_queues_as_owner(std::span<const std::shared_ptr<MessageOperation>> operations,
                                  std::chrono::milliseconds timeout);
  void set_limit(Operation& operation, Clock::time_point now,
                 std::chrono::milliseconds timeout) const;
  /// Whether neighbours have published calls that are to be compared.
  bool record_as_owner(const Signature& signature) {
    history_.record(signature);
    return has_ahead_.load(std::memory_order_acquire);
  }
  bool advance_collective_as_owner();
  /// Of the first one in the queue.
  void collective_failed_as_owner(Failure failure);

  // The short ways
  /// Whether nothing is under way and nothing wrong.
  bool calm_as_owner() const {
    return !busy_as_owner() && blocking_ == nullptr && !broken_ && !suspicion_ &&
           !has_news_.load(std::memory_order_relaxed) && !closed_.load(std::memory_order_relaxed);
  }
  /// Until the link has taken a message that is pushed.
  void flush_as_owner(const MessageRequest& request, const Pattern& to);

  // repeat.cpp
  Repeatable& repeatable(const PlainCall& call) { return repeatables_[call.hash() % kRepeatables]; }
  void compare_or_raise_as_owner();
  /// Until it is done or has failed, but only for a moment; `is_brief`: a shorter one.
  Plan::Polled poll_as_owner(Plan& plan, bool is_brief);
  Result<std::shared_ptr<Work::State>> queue_repeated_as_owner(
      const std::shared_ptr<CollectiveOperation>& operation, Plan::Polled polled);

  // dumping.cpp
  /// What is not over, and how many collectives hosts have done their part of.
  struct Standing {
    std::uint64_t finished = 0;
    std::vector<dump::UnderWay> under_way = {};
    std::set<std::uint64_t> on_device = {};  ///< of those the ones that devices have not ended
  };
  std::vector<dump::Peer> peers(const std::vector<Rank>& ranks) const;
  dump::UnderWay under_way(const CollectiveOperation& operation,
                           const FlightRecorder::Times& times) const;
  /// Of which only a device has to do its part.
  dump::UnderWay under_way_on_device(std::uint64_t number,
                                     const FlightRecorder::Times& times) const;
  Standing standing_as_owner() const;
  /// Before what is under way ends with a failure.
  void keep_standing_as_owner() noexcept;
  /// All that is known without the owner flag.
  dump::Dump dump_of_calls(std::string_view reason) const;
  dump::Dump dump_as_owner(std::string_view reason) const;
  std::string dump_path() const;
  void write_dump_as_owner(std::string_view reason) noexcept;
  void try_to_dump(int tries);
  std::string wanted_dump() const;

  /// Before what is under way ends with it.
  void note_failure_as_owner(const Failure& failure) noexcept;

  // failures.cpp
  Status usable_as_owner();
  /// What the control path has told.
  std::optional<Failure> news() const;
  /// Ends what devices make; the next to make progress ends all calls with it, if it is the first.
  void hear(const Failure& failure);
  void failed_as_owner(Failure failure);
  /// Breaks with `failure` when `grace` is over, unless the control path brings a cause.
  void suspect_as_owner(Failure failure, Clock::duration grace);
  /// Ends every operation with `failure`; `tell`: and those of the other ranks.
  void break_as_owner(const Failure& failure, bool tell);
  /// The same in a forked child, where links and files are the parent's.
  void break_copy_as_owner(const Failure& failure);
  /// True where that breaks the communicator. `may_wait`: while anything moves, calls that another
  /// rank's loss has ended elsewhere may yet end well here, with what has come.
  bool take_news_as_owner(bool may_wait = false);
  /// Tells the links who has gone.
  void take_departures_as_owner();
  /// That rank of the job has gone.
  void depart(std::uint32_t rank, Departure how, const Failure& why);
  /// A rank is lost, and what is under way, or the next call, needs it.
  void end_by_loss_as_owner(const Failure& loss);
  /// The loss that nothing can move on after; nothing while it may. `next`: as in long_gone().
  std::optional<Failure> ending_loss_as_owner(Clock::time_point now, Clock::time_point& next) const;
  /// What this rank lacked, or threw, as a failure of this rank, which others are told.
  Failure failed_here(const Failure& failure) const;

  // mismatch.cpp
  /// Of a call that this rank has made from what a peer has published.
  std::optional<Failure> difference(Rank peer, const Waiting& waiting) const;
  /// Compares the calls so far with what neighbours had published before.
  Status compare_with_ahead();
  /// No more calls come: after the last ones, if `compared`, which ring neighbours compare.
  void publish_end(bool compared);
  /// A slice that no call here expected; if the rank `closes`, unless last calls tell more.
  std::optional<Failure> unread_as_owner(bool closes) const;
  /// That rank of the job has closed; rank 0 tells the others once all have.
  void note_closed(std::uint32_t rank);
  /// Until they have them, or this rank has theirs; after private sizes, until all have closed.
  void await_last_calls();
  /// A slice showed that its sender makes another call: the failure waits for that call's label.
  void ask_for_label_as_owner(const CollectiveOperation& operation, Failure failure);
  /// Whether that has come.
  bool take_label_as_owner();

  // failures.cpp
  std::string name_of(const CollectiveOperation& operation) const;
  std::string name_of(std::uint64_t sequence, const Signature& signature,
                      std::string_view label) const;
  static std::string note_of(std::string_view label,
                             const std::shared_ptr<const Reduction::Custom>& reduction);
  std::string ranks_text(const std::vector<Rank>& ranks) const;
  /// How far it has come, since when it stands there and whom it waits for; of one whose time is
  /// over.
  std::string whereabouts(const CollectiveOperation& operation, Clock::time_point now) const;
  /// Why it has not.
  static std::string_view not_begun(const CollectiveOperation& operation);
  void publish_as_owner(CollectiveOperation& operation, Clock::time_point now);
  /// Tells control whom this rank waits for; no longer, once anything moves.
  void tell_waits_as_owner();
  void take_waits_back_as_owner();
  /// Shortly before the time limit of an operation, once: whether ranks wait in a cycle. True when
  /// that is now.
  bool seek_cycle_as_owner(Operation& operation, std::uint64_t sequence, Clock::time_point now,
                           Clock::time_point& next);
  /// "; ranks wait in a cycle: …", if so; empty where it is not known.
  std::string cycle_of(std::uint64_t sequence) const;
  bool supervise_collective_as_owner(CollectiveOperation& operation, Clock::time_point now,
                                     Clock::time_point& next);
  void supervise_messages_as_owner(Clock::time_point now, Clock::time_point& next);
  /// Of a call that waits for `gone` alone, whose links have never been connected.
  std::optional<Failure> in_vain_as_owner(const std::vector<Rank>& gone) const;
  /// Of `ranks`, those that have left unheard become known to have, soon.
  void look_for(const std::vector<Rank>& ranks);

  // long_waits.cpp
  /// Whether it has come to that just now.
  LongWait long_wait_as_owner(Operation& operation, Clock::time_point now,
                              Clock::time_point& next) const;
  void look_at_long_wait_as_owner(CollectiveOperation& operation, Clock::time_point now,
                                  Clock::time_point& next);
  void tell_long_waits_as_owner(std::span<const std::shared_ptr<MessageOperation>> late,
                                Clock::time_point now) const;

  // stands.cpp
  /// For those who may ask; nothing: it moves.
  void note_stand(std::optional<StandReport> stand);
  /// Those that the call waits for, now or later, shortly before its time limit.
  void ask_for_stands_as_owner(const CollectiveOperation& operation, Clock::time_point now);
  /// The same of any ranks: about messages they know nothing, and say what they do.
  void ask_for_stands_as_owner(AskedStands asked);
  /// To one that asks; needs no owner flag, which the thread that waits has.
  std::string stand_in(std::uint64_t sequence) const;
  /// The same where no call is named.
  std::string stand() const;
  /// " 20 ms before"; empty where that is not known any more.
  std::string began_before(std::uint64_t call) const;
  void take_answer(Rank from, const Waiting& answer);
  /// "; asked 499 ms before: rank 1 had not come to this call …"; nothing where nobody was asked.
  std::string answers_about(std::uint64_t sequence, Clock::time_point now) const;

  const std::shared_ptr<Member> member_;
  const std::uint64_t id_;
  const CommunicatorOptions options_;
  const Group group_;
  const std::string name_;
  CostTable costs_;                   // immutable after make
  std::vector<std::uint32_t> hosts_;  // of Problem::host_of; immutable after make
  Forced forced_;                     // immutable after make
  bool oversubscribed_ = false;       // immutable after make: ranks outnumber cores
  bool in_memory_ = false;            // immutable after make: all ranks share some
  /// Of a blocking message that goes the short way. Over wires a longer one is placed where it
  /// belongs as it comes, which that way does not do.
  std::size_t most_short_bytes() const { return in_memory_ ? kMaxEagerBytes : 4 << 10; }
  bool subscribed_ = false;                  // immutable after make: it was there at all
  DeviceWayPick device_way_;                 // immutable after make
  bool knows_devices_ = false;               // immutable after make: CUDA is in use here
  std::uint64_t cached_bytes_ = UINT64_MAX;  // of PlanRequest; immutable after make
  /// A bit for each level.
  std::atomic<unsigned> told_not_direct_{0};
  const std::shared_ptr<Waiter> waiter_;

  std::atomic<bool> closed_{false};
  OwnerFlag owner_;
  // owner: holder of the owner flag, down to the next remark
  std::unique_ptr<Tracing> tracing_;  ///< null: nothing is traced
  FlightRecorder recorder_;
  LinkTable links_;
  Losses losses_;
  TrafficTable traffic_;  ///< of plans that are gone
  std::unordered_map<Signature, std::shared_ptr<Plan>, SignatureHash> plans_;
  std::deque<std::shared_ptr<CollectiveOperation>> collectives_;
  std::uint64_t sequence_ = 0;  ///< of the next collective
  Messages messages_;
  StreamCalls stream_calls_;  ///< by its own tags
  // guarded by the streams' submission()
  /// What devices make calls by, where they do.
  std::unordered_map<Signature, OnDevice, SignatureHash> device_programs_;
  bool has_told_refusal_ = false;  ///< of one that fits no device

  std::optional<Failure> broken_;
  std::optional<Standing> at_break_;  ///< as broken_
  /// What this rank will break with, while the control path may know better.
  std::optional<Failure> suspicion_;
  std::optional<DifferentCalls> different_;  ///< of a suspicion that is a mismatch
  Clock::time_point suspected_until_;
  bool moved_ = true;            ///< since supervise_as_owner last looked
  bool waits_told_ = false;      ///< to control
  std::uint64_t movements_ = 0;  ///< rounds in which anything moved
  std::uint32_t resting_ = 0;    ///< threads that have waited in the flag's queue already
  Clock::time_point rest_until_ = Clock::time_point::max();  ///< the first of their limits
  Clock::time_point last_moved_;
  Sweep sweep_;
  Clock::time_point looked_;                          ///< for ranks that messages wait for
  std::array<Repeatable, kRepeatables> repeatables_;  ///< by PlainCall::hash()
  /// A collective that a thread is blocked in.
  struct Blocking {
    const Signature& signature;
    std::optional<std::uint64_t> number;  ///< none where its stream has yet to come to it
  };
  const Blocking* blocking_ = nullptr;
  std::uint64_t children_ = 0;
  std::optional<Announcement> announcement_;
  std::byte barrier_[2] = {};

  std::shared_ptr<Background> background_;  // immutable after make

  static constexpr std::string_view kFailureDump = "failure";
  static constexpr std::string_view kBesideDump = "beside";
  std::shared_ptr<DumpSignal> dump_signal_;  // immutable after make; null: no files
  std::string dump_directory_;               // immutable after make; empty: no files
  std::atomic<bool> dump_wanted_{false};     // by request_dump
  std::atomic<bool> failure_dumped_{false};  // what stands in the file, others do not replace
  std::string dump_reason_;                  // guarded by mutex_: of that

  std::atomic<bool> has_news_{false};
  std::atomic<bool> forked_{false};  // set before has_news_, in a child that has one thread
  mutable std::mutex mutex_;
  std::optional<Failure> news_;           // guarded by mutex_
  std::optional<Failure> first_failure_;  // guarded by mutex_: as broken_
  Departures departures_;
  Farewells farewells_;
  History history_;
  Labels labels_;
  std::vector<std::pair<Rank, Waiting>> ahead_;  // guarded by mutex_
  std::optional<MadeCall> told_label_;           // guarded by mutex_: the last; no signature
  std::atomic<bool> has_ahead_{false};           // whether there are any; spares the lock
  std::map<std::uint64_t, std::string> cycles_;  // guarded by mutex_: by sequence
  std::optional<StandReport> stand_;             // guarded by mutex_: of this rank
  std::optional<AskedStands> asked_;             // guarded by mutex_: the last
  std::optional<Making> making_;                 // guarded by mutex_
  std::map<std::uint64_t, std::uint64_t> made_;  // guarded by mutex_: times, by list
  std::shared_ptr<Headcount> headcount_;         // guarded by mutex_; of a shrink that waits
  std::map<Ranks, Shrinks> shrinks_;             // guarded by mutex_: by who was excluded
  bool is_shrinking_ = false;                    // guarded by mutex_
  const ForkNotice fork_notice_{*this};          // the last: the rest is there when it is told
};

}  // namespace ccoll
