// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The service thread's side of one rank's control: its connections, their traffic, and the state
/// of its start-up. Every method runs on the service thread unless it says otherwise. So locks
/// guard only the state of waiting threads (Progress) and the queue of actions.

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

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
#include "control/start_up_failure.hpp"
#include "control/state/action_queue.hpp"
#include "control/state/admission.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"
#include "control/state/traffic_count.hpp"
#include "control/wire.hpp"
#include "net/service.hpp"

namespace ccoll::control {

/// State shared by the service thread and threads that wait in join() and leave().
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> outcome;   ///< guarded by mutex: of the start-up; set once
  std::optional<Status> attempt;   ///< guarded by mutex: of the last call_parent
  std::vector<PeerAddress> table;  ///< guarded by mutex: complete when outcome is a success
  std::uint64_t job = 0;           ///< guarded by mutex: the same
  std::string rank0_text;          ///< guarded by mutex: by rank 0, with success
  bool gone = false;               ///< guarded by mutex: leaving is over
};

class Hub final : public Edge::Owner,
                  public Tasks::Owner,
                  public Flooding::Owner,
                  public Reconnection::Owner,
                  public std::enable_shared_from_this<Hub> {
 public:
  using Stream = net::Stream;
  using Clock = std::chrono::steady_clock;

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
      if (!is_ended) asio::post(hub->context_, [hub] { hub->run_actions(); });
    });
    if (is_ended) hub->run_actions();
  }
  /// Runs the queued actions at once; on the service thread, or after it has ended.
  void run_actions();

  // Start-up (start_up.cpp).

  /// Takes a new connection: reads its hello, and answers it.
  void accept(net::Stream stream);
  /// Begins the start-up of this rank, which has announced itself and tries until `deadline`.
  void begin(Clock::time_point deadline);
  /// One attempt to connect to the parent, whose row the store gave; sets Progress::attempt.
  void call_parent(const Row& parent);
  /// Asks the process that announced itself as this rank, with that row, whether it is starting up
  /// too. If so, the attempt fails, and the other process knows it.
  void ask_claimant(const Row& row);
  /// Fails the start-up for everyone, unless it is already decided.
  void give_up(const Failure& failure);
  Standing standing() const;

  // After the start-up (hub.cpp; staying connected: reconnect.cpp).

  void unsubscribe(std::uint64_t communicator);
  Flooding& flooding() { return flooding_; }
  Publications& publications() { return publications_; }
  LivenessProbe& liveness_probe() { return liveness_probe_; }
  const News& news() const { return news_; }
  /// Says goodbye; sets Progress::gone when done, after kLeaveLimit at the latest.
  void leave();

  // For any thread.

  Progress& progress() { return progress_; }
  const Row& row() const { return caller_.row(); }
  /// Whether this is a forked child of the process that made it.
  bool is_forked() const {
    const auto service = service_.lock();
    return service && service->is_forked();
  }
  Control::Statistics statistics() const { return traffic_.value(); }

  Status received(Edge& edge, const Frame& frame) override;
  void ended(Edge& edge, const std::string& why) override;
  void failed(Edge& edge, const Failure& failure) override;
  std::shared_ptr<void> keep() override { return shared_from_this(); }
  void break_down(const Failure& failure) noexcept override;
  void break_down() noexcept override;
  void lost(std::uint32_t rank) override;
  void job_failed(const Failure& failure) override;
  void gone() override { reconnection_.ensure(); }
  std::shared_ptr<Edge> meet(Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting) override;
  void welcomed(Edge& edge) override;
  void finish_leaving() override;

  static constexpr std::chrono::milliseconds kLeaveLimit{700};

 private:
  using Kept = std::shared_ptr<void>;

  asio::awaitable<void> receive_call(Kept kept, Stream accepted);
  asio::awaitable<Status> call(std::uint32_t peer, Row row);
  asio::awaitable<void> attempt(Kept kept, Row parent);
  asio::awaitable<void> check_claim(Kept kept, Row other);
  void tell_attempt(Status status);
  asio::awaitable<void> call_successor(Kept kept);
  /// Spreads the claim to everyone. The start-up fails, or the job if the start-up is over only
  /// here, because nobody knows which process belongs to which job.
  void tell_claim(const Failure& claim);
  Status gathered(std::uint32_t child, std::string_view body);
  Status table(std::uint32_t parent, std::string_view body);
  /// The table is complete: sends it down the tree, and calls the ring successor.
  void pass_on_table();
  /// Takes the next step of the start-up, if it is due.
  void advance();
  void decide(const Status& outcome);

  /// For a lack of memory to report a failure.
  void fall_silent() noexcept;

  asio::io_context& context_;                  // immutable
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
  asio::steady_timer leave_timer_;

  Admission admission_;
  std::string last_trouble_;

  // for any thread
  ActionQueue<Hub> actions_;
};

}  // namespace ccoll::control
