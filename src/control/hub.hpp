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

#include "control/connections/caller.hpp"
#include "control/connections/edge.hpp"
#include "control/connections/edges.hpp"
#include "control/connections/tasks.hpp"
#include "control/flooding.hpp"
#include "control/news.hpp"
#include "control/publications.hpp"
#include "control/start_up_failure.hpp"
#include "control/state/action_queue.hpp"
#include "control/state/admission.hpp"
#include "control/state/ascent.hpp"
#include "control/state/heartbeat.hpp"
#include "control/state/probes.hpp"
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
                  public std::enable_shared_from_this<Hub> {
 public:
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
  const News& news() const { return news_; }
  /// Says goodbye; sets Progress::gone when done, after kLeaveLimit at the latest.
  void leave();

  // For any thread, except probe().

  Progress& progress() { return progress_; }
  const Row& row() const { return caller_.row(); }
  /// Whether this is a forked child of the process that made it.
  bool is_forked() const {
    const auto service = service_.lock();
    return service && service->is_forked();
  }
  /// As Control's.
  void probe(const std::vector<std::uint32_t>& ranks);
  Control::Statistics statistics() const { return traffic_.value(); }

  Status received(Edge& edge, const Frame& frame) override;
  void ended(Edge& edge, const std::string& why) override;
  void failed(Edge& edge, const Failure& failure) override;
  std::shared_ptr<void> keep() override { return shared_from_this(); }
  void break_down(const Failure& failure) noexcept override;
  void break_down() noexcept override;
  void lost(std::uint32_t rank) override;
  void job_failed(const Failure& failure) override;
  void gone() override { reconnect(); }

  static constexpr std::chrono::milliseconds kLeaveLimit{700};

 private:
  using Stream = net::Stream;
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
  /// Adds an established connection; sends `greeting`, if any, and news the peer may have missed.
  std::shared_ptr<Edge> meet(Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting);
  Status gathered(std::uint32_t child, std::string_view body);
  Status table(std::uint32_t parent, std::string_view body);
  /// The table is complete: sends it down the tree, and calls the ring successor.
  void pass_on_table();
  /// Takes the next step of the start-up, if it is due.
  void advance();
  void decide(const Status& outcome);

  /// For a lack of memory to report a failure.
  void fall_silent() noexcept;
  void finish_leaving();

  /// Ensures a connection to a living rank above this one. Cheap if there is one.
  void reconnect();
  std::optional<std::uint32_t> next_above(std::uint32_t rank) const;
  void seek_again(std::chrono::milliseconds pause);
  /// Calls the next rank above, until there is none.
  void seek();
  /// Whether a rank that is yet to be called may have missed a failure.
  bool brings_news() const;
  /// On leaving: calls a rank if there is no connection, or news that some rank may have missed.
  void seek_to_leave();
  asio::awaitable<void> reach(Kept kept, std::uint32_t peer);
  void introduce(Stream stream, std::uint32_t peer);
  Status answered(Edge& edge, const Frame& frame);
  void missed(std::uint32_t peer, ErrorKind kind);
  /// Nobody listens there: the others get kAbsence to say why.
  void await_news_of(std::uint32_t rank);
  void await_absent();
  void part_with_absent();

  // liveness_probe.cpp
  void ask_next();
  asio::awaitable<void> ask(Kept kept, Probes::Question asked);
  void asked(std::uint32_t rank);
  /// Records that a rank has not answered (`silent`), or has.
  void doubt(const Probes::Question& asked, bool silent);

  // heartbeat.cpp
  /// For a new connection: sends the peer this rank's limit, if it has one.
  void tell_limit(Edge& edge);
  void send_beat(Edge& edge);
  /// Keeps checking the connections, if this rank or a peer has a limit.
  void keep_watch();
  void look_at_peers();
  Status beat(Edge& edge, std::string_view body);

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
  Edges edges_;
  Flooding flooding_;
  Publications publications_;
  asio::steady_timer leave_timer_;

  // owner: the service thread; for the heartbeat
  Heartbeat heartbeat_;
  asio::steady_timer watch_timer_;

  // owner: the service thread; for reconnecting
  std::optional<std::uint32_t> above_;  ///< the peer above this rank; none: it is the highest
  Ascent ascent_;
  std::shared_ptr<Edge> calling_;  ///< one of edges_ that has not answered our hello yet
  /// Ranks where nobody listens, for an unknown reason; until when others may say why.
  std::map<std::uint32_t, Clock::time_point> absent_;
  Probes probes_;
  asio::steady_timer reconnect_timer_;
  asio::steady_timer absence_timer_;

  // owner: the service thread; for the start-up
  Roster roster_;
  Admission admission_;
  std::string last_trouble_;

  // for any thread
  ActionQueue<Hub> actions_;
};

}  // namespace ccoll::control
