// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator as a group, by stream steps or the team kernel: each has its own part
// of the group as its way.
#include <atomic>
#include <condition_variable>
#include <thread>
#include <utility>

#include "core/deadline.hpp"
#include "gpu/device_way.hpp"
#include "gpu/group/stream_group.hpp"
#include "gpu/team/device_stream_op.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"

namespace ccoll::device {
namespace {

struct GroupDeviceProgram final : DeviceProgram {
  explicit GroupDeviceProgram(const GroupProgram* loaded) : program(loaded) {}
  const GroupProgram* const program;
};

/// A group, and how its streams go on once it is aborted. What a stream has written since may have
/// undone the release, and graphs may run again when no communicator is left.
class SharedStreamGroup final : public std::enable_shared_from_this<SharedStreamGroup> {
 public:
  /// If it goes with a graph, it goes in a thread of CUDA, which must not call CUDA: another thread
  /// then deletes it.
  static std::shared_ptr<SharedStreamGroup> make(std::unique_ptr<StreamGroup> group) {
    return {new SharedStreamGroup(std::move(group)), [](SharedStreamGroup* gone) {
              if (!is_in_listener()) return delete gone;
              std::thread([gone] { delete gone; }).detach();
            }};
  }

  StreamGroup& group() const { return *group_; }

  /// Any thread may call, CUDA's threads too.
  void abort(const Failure& why) noexcept {
    group_->abort(why);
    if (is_aborted_.exchange(true)) return;
    try {
      std::thread([self = shared_from_this()] { self->let_continue(); }).detach();
    } catch (...) {
      log().error("there is no thread to let abandoned streams continue");
    }
  }

  // A graph must not run beside another call of the rank, which has the same words and slots. With
  // stream steps, a graph's calls report to the host where they begin and end, and other calls
  // leave their counts for it. So two calls that are under way at once are detected, at the latest
  // when the graph's call is over. Kernels detect that by themselves.

  /// Any thread may call it and the next two, CUDA's threads too.
  void graph_comes() noexcept {
    const auto plain = group_->plain_calls();
    bool is_alone = true;
    {
      const auto graphs = graphs_.lock();
      if (plain) {
        is_alone = graphs->under_way == 0 && plain->begun == plain->ended;
        graphs->begun_before = plain->begun;
      }
      ++graphs->under_way;
      ++graphs->came;
      changed_.notify_all();
    }
    if (!is_alone) abort(beside_another_);
  }
  void graph_has_gone() noexcept {
    look();
    --graphs_.lock()->under_way;
  }
  /// Ends all if another call has begun since a graph's did.
  void look() noexcept {
    if (!counts_plain_calls_) return;
    {
      const auto graphs = graphs_.lock();
      if (graphs->under_way == 0 || group_->plain_calls()->begun == graphs->begun_before) return;
    }
    abort(beside_another_);
  }
  bool has_graph_under_way() const { return graphs_.lock()->under_way > 0; }

 private:
  explicit SharedStreamGroup(std::unique_ptr<StreamGroup> group)
      : group_(std::move(group)), counts_plain_calls_(group_->plain_calls().has_value()) {}

  /// Goes on as long as anybody else has the group.
  void let_continue() {
    constexpr std::chrono::microseconds kAgain{100};
    constexpr std::chrono::milliseconds kIdle{100};
    while (weak_from_this().use_count() > 1) {
      group_->release();
      // CUDA's own threads take the lock, so it is not held here.
      const bool has_ended = group_->has_ended();
      auto graphs = graphs_.lock();
      const bool is_busy = graphs->under_way > 0 || !has_ended;
      const auto pause =
          is_busy ? std::chrono::duration_cast<std::chrono::nanoseconds>(kAgain) : kIdle;
      graphs.wait_until(changed_, deadline_after(pause),
                        [came = graphs->came](const Graphs& now) { return now.came != came; });
    }
  }

  struct Graphs {
    int under_way = 0;               ///< calls of graphs
    std::uint64_t came = 0;          ///< how many have come so far
    std::uint32_t begun_before = 0;  ///< of calls that no graph has
  };

  const std::unique_ptr<StreamGroup> group_;
  const bool counts_plain_calls_;  ///< true for steps
  /// This is made beforehand: CUDA's threads may have no memory for it.
  const Failure beside_another_{
      ErrorKind::aborted,
      "a call of a rank found another one under way in its streams: a graph must not run beside "
      "another call of the same communicator",
      std::nullopt};
  std::atomic<bool> is_aborted_{false};
  Guarded<Graphs> graphs_;
  std::condition_variable changed_;
};

class GroupStreamOp final : public DeviceStreamOp {
 public:
  GroupStreamOp(std::shared_ptr<SharedStreamGroup> group, std::shared_ptr<Leases> leases,
                const StreamOpRequest& request)
      : DeviceStreamOp(std::move(leases), request),
        group_(std::move(group)),
        program_(request.program) {}

  Status enqueue(std::shared_ptr<StreamListener> listener) override;
  Status outcome() const override {
    group_->look();
    return group_->group().check();
  }
  std::string standing() const override {
    return group_->group().standing(*static_cast<const GroupDeviceProgram&>(*program_).program);
  }
  void release() override {
    if (is_captured()) let_continue();
  }
  void forsake() override {
    group_->abort({ErrorKind::aborted, "a rank's communicator has ended", std::nullopt});
    release();
  }

 private:
  /// Tells the group of a graph's call, too.
  class Counting final : public StreamListener {
   public:
    Counting(std::shared_ptr<SharedStreamGroup> group, std::shared_ptr<StreamListener> listener)
        : group_(std::move(group)), listener_(std::move(listener)) {}
    void reached() noexcept override {
      group_->graph_comes();
      listener_->reached();
    }
    void passed() noexcept override {
      group_->graph_has_gone();
      listener_->passed();
    }

   private:
    const std::shared_ptr<SharedStreamGroup> group_;
    const std::shared_ptr<StreamListener> listener_;
  };

  Status put_call();

  const std::shared_ptr<SharedStreamGroup> group_;
  const std::shared_ptr<const DeviceProgram> program_;
};

Status GroupStreamOp::enqueue(std::shared_ptr<StreamListener> listener) {
  const CurrentDevice current(device());
  CCOLL_TRY(current.status());
  if (!is_captured()) {
    auto put = put_before();
    if (put) put = put_call();
    if (!put) {
      put_off();
      return put;
    }
    put = put_behind();
    // The stream's part of the call may still use the buffers.
    if (!put) keep_for_ever(shared_from_this());
    return put;
  }
  auto hold = std::make_unique<StreamHold>(shared_from_this(), marks(),
                                           std::make_shared<Counting>(group_, std::move(listener)));
  StreamHold& held = *hold;
  CCOLL_TRY(give_to_graph(stream(), std::move(hold)));
  CCOLL_TRY(tell_reached(stream(), held));
  // Otherwise calls behind it, in this graph or not, would be reached before it has its number.
  CCOLL_TRY(put_wait_for_host());
  CCOLL_TRY(put_before());
  CCOLL_TRY(put_call());
  CCOLL_TRY(put_behind());
  return tell_passed(stream(), held);
}

Status GroupStreamOp::put_call() {
  auto* const in = input() != nullptr ? input() : leases().barrier_bytes();
  auto* const out = output() != nullptr ? output() : leases().barrier_bytes() + kBarrierBytes / 2;
  const auto* const program = static_cast<const GroupDeviceProgram&>(*program_).program;
  return group_->group().call(program, in, out, stream(), is_captured());
}

class GroupWay final : public DeviceWay {
 public:
  GroupWay(const GroupWayOptions& options, std::shared_ptr<SharedStreamGroup> group)
      : by_kernels_(options.by_kernels),
        leases_(options.staging->leases()),
        group_(std::move(group)) {}

  std::string_view name() const override { return by_kernels_ ? "team" : "steps"; }
  Result<std::shared_ptr<const DeviceProgram>> load(const ProgramRequest& request) override;
  Result<std::shared_ptr<StreamOp>> stream_op(const StreamOpRequest& request) override {
    const auto stream_op = std::make_shared<GroupStreamOp>(group_, leases_, request);
    CCOLL_TRY(stream_op->take_lease(request));
    return stream_op;
  }
  bool is_entered_together() const override { return false; }
  void abort(const Failure& why) override { group_->abort(why); }
  bool is_aborted() const override { return cause().has_value(); }
  std::optional<Failure> cause() const override {
    group_->look();
    auto whole = group_->group().check();
    return whole ? std::nullopt : std::optional(std::move(whole.error()));
  }
  bool has_graph_under_way() const override { return group_->has_graph_under_way(); }
  std::uint64_t held_bytes() const override { return group_->group().held_bytes(); }

 private:
  const bool by_kernels_;
  const std::shared_ptr<Leases> leases_;
  const std::shared_ptr<SharedStreamGroup> group_;
};

Result<std::shared_ptr<const DeviceProgram>> GroupWay::load(const ProgramRequest& request) {
  auto lowering = lowering_of(request);
  // Which ranks see another's buffers is known only at the call.
  lowering.lends = false;
  if (by_kernels_) {
    // So is which ranks are in place.
    lowering.in_place.assign(request.problem.size, true);
  } else {
    // Steps have no words.
    lowering.tiny_bytes = 0;
  }
  lowering.devices = group_->group().device_numbers();
  const auto lowered = lower(lowering);
  if (!lowered) return tl::unexpected(lowered.error());
  const auto loaded = group_->group().load(*lowered);
  if (!loaded) return tl::unexpected(loaded.error());
  return std::make_shared<const GroupDeviceProgram>(*loaded);
}

}  // namespace

Result<std::shared_ptr<DeviceWay>> make_group(const GroupWayOptions& options, Exchange& exchange,
                                              Exchange::TimePoint deadline) {
  if (options.by_kernels) rest_idle_teams();
  StreamGroupOptions group;
  group.rank = options.rank;
  group.size = options.size;
  group.device = options.staging->device();
  group.shared_bytes = options.workspace_bytes;
  group.by_kernels = options.by_kernels;
  group.by_copies = !options.by_kernels && options.copies == CopyUse::always;
  if (options.most_blocks != 0 || options.by_kernels) group.most_blocks = options.most_blocks;
  auto made = StreamGroup::make(group, exchange, deadline);
  if (!made) return tl::unexpected(std::move(made.error()));
  return std::make_shared<GroupWay>(options, SharedStreamGroup::make(std::move(*made)));
}

}  // namespace ccoll::device
