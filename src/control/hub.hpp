// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The service thread's side of one rank's control. The hub has its parts, answers callers, hands
/// each frame to the part that it is for, and leaves. Every method runs on the service thread
/// unless it says otherwise. So locks guard only the state of waiting threads (Progress) and the
/// queue of actions.

#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "control/connections/absences.hpp"
#include "control/connections/caller.hpp"
#include "control/connections/edge.hpp"
#include "control/connections/edges.hpp"
#include "control/connections/heartbeat_watch.hpp"
#include "control/connections/liveness_probe.hpp"
#include "control/connections/reconnection.hpp"
#include "control/connections/tasks.hpp"
#include "control/flooding.hpp"
#include "control/news.hpp"
#include "control/publications.hpp"
#include "control/start_up.hpp"
#include "control/state/action_queue.hpp"
#include "control/state/admission.hpp"
#include "control/state/progress.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"
#include "control/state/traffic_count.hpp"
#include "control/wire.hpp"
#include "net/service.hpp"

namespace ccoll::control {

class Hub final : public Edge::Owner,
                  public Tasks::Owner,
                  public Flooding::Owner,
                  public StartUp::Owner,
                  public std::enable_shared_from_this<Hub> {
 public:
  /// Callable on any thread.
  Hub(const std::shared_ptr<net::Service>& service, const Control::Membership& membership);

  /// Runs `action(hub)` on the service thread, after all earlier actions. If that thread has ended,
  /// runs it at once: its news must get out before the process ends. An exception ends every
  /// communicator of the job.
  template <typename Action>
  static void run(const std::shared_ptr<Hub>& hub, Action action) {
    std::function<void(Hub&)> queued(
        [action = std::make_shared<Action>(std::move(action))](Hub& self) { (*action)(self); });
    const auto service = hub->service_.lock();
    const bool is_ended = service && service->has_ended();
    hub->actions_.add(std::move(queued), [&] {
      if (!is_ended) asio::post(hub->tasks_.context(), [hub] { hub->run_actions(); });
    });
    if (is_ended) hub->run_actions();
  }
  /// Runs the queued actions at once; on the service thread, or after it has ended.
  void run_actions();

  /// Takes a new connection: reads its hello, and answers it.
  void accept(net::Stream stream);
  /// As Control's.
  void unsubscribe(std::uint64_t communicator);
  /// Says goodbye; sets Progress::gone when done, after kLeaveLimit at the latest.
  void leave() override;

  StartUp& start_up() { return start_up_; }
  Flooding& flooding() { return flooding_; }
  Publications& publications() { return publications_; }
  LivenessProbe& liveness_probe() { return liveness_probe_; }
  const News& news() const { return news_; }

  // For any thread.

  Progress& progress() { return progress_; }
  const Row& row() const { return caller_.row(); }
  /// Whether this is a forked child of the process that made it.
  bool is_forked() const {
    const auto service = service_.lock();
    return service && service->is_forked();
  }
  Control::Statistics statistics() const { return traffic_.value(); }

  static constexpr std::chrono::milliseconds kLeaveLimit{700};

 private:
  // For its parts.

  Status received(Edge& edge, const Frame& frame) override;
  void ended(Edge& edge, const std::string& why) override;
  void failed(Edge& edge, const Failure& failure) override;
  std::shared_ptr<void> keep() override { return shared_from_this(); }
  void break_down(const Failure& failure) noexcept override;
  void break_down() noexcept override;
  void lost(std::uint32_t rank) override;
  void job_failed(const Failure& failure) override { start_up_.fail_for_all(failure); }
  void gone() override { reconnection_.ensure(); }
  std::shared_ptr<Edge> meet(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting) override;
  void welcomed(Edge& edge) override;
  void finish_leaving() override;

  asio::awaitable<void> receive_call(std::shared_ptr<void> kept, net::Stream accepted);
  /// Spreads the claim to everyone. The start-up fails, or the job if the start-up is over only
  /// here, because nobody knows which process belongs to which job.
  void tell_claim(const Failure& claim);
  /// There is no memory to report a failure.
  void fall_silent() noexcept;

  const std::weak_ptr<net::Service> service_;  // immutable
  const std::uint32_t rank_;                   // immutable
  const std::uint32_t size_;                   // immutable

  // for any thread
  TrafficCount traffic_;
  Progress progress_;

  // owner: the service thread
  const Tasks tasks_;
  const Caller caller_;
  Stage stage_;
  News news_;
  Roster roster_;
  Edges edges_;
  Flooding flooding_;
  Publications publications_;
  HeartbeatWatch watch_;
  Absences absences_;
  Reconnection reconnection_;
  LivenessProbe liveness_probe_;
  StartUp start_up_;
  Admission admission_;
  asio::steady_timer leave_timer_;

  // for any thread
  ActionQueue<Hub> actions_;
};

}  // namespace ccoll::control
