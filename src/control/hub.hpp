// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The service thread's side of one rank's control: its connections, what goes over them, and the
/// state of its start-up. Every method runs on the service thread unless it says otherwise, so that
/// nothing here needs a lock but what waiting threads look at (Progress).

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "control/edge.hpp"
#include "control/news.hpp"
#include "control/roll_call.hpp"
#include "control/verdict.hpp"
#include "control/wire.hpp"
#include "net/service.hpp"

namespace ccoll::control {

/// What threads that wait in join() and leave() see of the service thread.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> outcome;   ///< guarded by mutex: of the start-up; set once
  std::optional<Status> attempt;   ///< guarded by mutex: of the last call_parent
  std::vector<PeerAddress> table;  ///< guarded by mutex: complete when outcome is a success
  std::uint64_t job = 0;           ///< guarded by mutex: the same
  std::string told;                ///< guarded by mutex: by rank 0, with success
  bool gone = false;               ///< guarded by mutex: leaving is over
};

class Hub final : public Edge::Owner, public std::enable_shared_from_this<Hub> {
 public:
  using Clock = std::chrono::steady_clock;

  /// On any thread.
  Hub(const std::shared_ptr<net::Service>& service, const Control::Membership& membership);

  /// Runs `action(hub)` on the service thread, after all that was given here before; or at once
  /// where that has ended: its news must get out before the process ends. What it throws ends every
  /// communicator of the job.
  template <typename Action>
  static void run(const std::shared_ptr<Hub>& hub, Action action) {
    std::function<void(Hub&)> queued(
        [action = std::make_shared<Action>(std::move(action))](Hub& self) { (*action)(self); });
    const auto service = hub->service_.lock();
    const bool is_ended = service && service->has_ended();
    {
      // All or nothing, should there be no memory: first the turn, for which the lock waits.
      const std::lock_guard lock(hub->actions_mutex_);
      if (!is_ended) asio::post(hub->context_, [hub] { hub->run_actions(); });
      hub->actions_.push_back(std::move(queued));
    }
    if (is_ended) hub->run_actions();
  }
  /// Those that wait, now: on the service thread, by who cannot let them wait.
  void run_actions();

  // Start-up (start_up.cpp).

  /// A connection that came for us: expects its hello, and answers it.
  void accept(net::Stream stream);
  /// This rank has announced itself; it will try until `deadline`.
  void begin(Clock::time_point deadline);
  /// One attempt to connect to the parent, whose row the store gave; ends in Progress::attempt.
  void call_parent(const Row& parent);
  /// Whether who has announced itself as this rank, with that row, is about to start up as well:
  /// then the attempt is a failure, of which that one knows, too.
  void ask_claimant(const Row& row);
  /// The start-up has failed, and everyone hears of it. Nothing when it is already decided.
  void give_up(const Failure& failure);
  Standing standing() const;

  // What comes after (hub.cpp; how ranks stay connected: reconnect.cpp).

  void subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer);
  void unsubscribe(std::uint64_t communicator);
  void flood(std::uint64_t communicator, const Failure& failure);
  bool has_failed(std::uint64_t communicator) const { return news_.has_failed(communicator); }
  void publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks);
  void tell_waits(std::uint64_t communicator, std::vector<OpenWait> waits);
  void seek_cycle(std::uint64_t communicator, std::uint64_t sequence);
  void call_roll(const RollCall& call, std::shared_ptr<Headcount> count);
  void give_up_roll_call(const RollCall& call, const Failure& why);
  /// Says goodbye and ends in Progress::gone, after kLeaveLimit at the latest.
  void leave();

  // On any thread.

  Progress& progress() { return progress_; }
  const Row& row() const { return row_; }
  /// In a child of the process that made it.
  bool is_forked() const {
    const auto service = service_.lock();
    return service && service->is_forked();
  }
  /// See Control.
  void probe(const std::vector<std::uint32_t>& ranks);
  Control::Statistics statistics() const;

  Status received(Edge& edge, const Frame& frame) override;
  void ended(Edge& edge, const std::string& why) override;
  void failed(Edge& edge, const Failure& failure) override;

  static constexpr std::chrono::milliseconds kLeaveLimit{700};

 private:
  using Stream = net::Stream;
  using Self = std::shared_ptr<Hub>;

  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  /// A rank that was asked in vain, again and again.
  struct Unanswered {
    Clock::time_point first;
    Clock::time_point last;
    int times = 0;
  };

  static asio::awaitable<void> receive_call(Self self, Stream accepted);
  static asio::awaitable<Status> call(Self self, std::uint32_t peer, Row row);
  static asio::awaitable<void> call_successor(Self self);
  /// The caller means this rank, but another number of ranks.
  bool disagrees(const Hello& hello) const;
  /// The caller says that it is a rank that another process is, this one or one that it has met.
  std::optional<Failure> claimed_twice(const Hello& hello) const;
  /// Who is the caller's rank as far as this one knows, where that is another process; or null.
  const PeerAddress* other_as(const Hello& hello) const;
  /// What all hear of it: their start-up fails, or, where it is over but others of the job may
  /// still be starting, which of the two belongs to whom cannot be known any more.
  void tell_claim(const Failure& claim);
  std::optional<Refusal> objection(const Hello& hello) const;
  std::optional<Refusal> late_objection(const Hello& hello) const;
  /// To a question; nothing is a welcome.
  std::optional<Refusal> reply(const Hello& hello) const;
  /// A connection stands: sends `greeting`, if any, and what the peer may not have heard.
  std::shared_ptr<Edge> meet(Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting);
  Status gathered(std::uint32_t child, std::string_view body);
  Status table(std::uint32_t parent, std::string_view body);
  void complete_table();
  /// Takes the next step of the start-up, if it is due.
  void advance();
  void decide(const Status& outcome);

  /// What makes a failure inside this rank one of everyone.
  std::function<void(const Failure&)> failing();
  /// The same for the exception being handled.
  void break_down() noexcept;
  void break_down(const Failure& failure) noexcept;
  /// Without memory to tell anyone why: whoever waits here learns as much as needs none, and the
  /// others that this rank is lost.
  void fall_silent() noexcept;
  /// A handler of Asio's that runs `action(hub)` unless it is cancelled; what that throws ends
  /// every communicator.
  template <typename Action>
  auto handler(Action action) {
    return [self = shared_from_this(),
            action = std::move(action)](const asio::error_code& error = {}) {
      if (error) return;
      try {
        action(*self);
      } catch (...) {
        self->break_down();
      }
    };
  }
  void spread(const FailureNews& news, std::uint32_t except);
  /// `rank` has left: everyone but `from`, who said so, hears of it, if it is news.
  void part_with(std::uint32_t rank, std::uint32_t from);
  void settle(const News::Findings& findings);
  void lose(std::uint32_t peer, const PeerAddress& address, const std::string& why);
  /// `rank` is lost for everyone: nothing that it says counts any more, should it live.
  void dismiss(std::uint32_t rank);
  /// The news that this rank is counted as lost, in words for this rank.
  FailureNews counted_out(const FailureNews& news) const;
  void forward(const std::string& frame, std::uint32_t except);
  /// Sends it on its way: by our own connection, along the tree, or around who has gone.
  void route(Publication publication);
  void send(Edge& edge, const std::string& frame);
  /// Goes on with roll calls, as far as news and answers allow.
  void count();
  /// Once for all that is heard in one turn: each look goes through all answers.
  void count_soon();
  /// Tells the peers of the departures that were not passed on yet.
  void pass_on_departures();
  void send_departures(Edge& edge, const std::vector<std::uint32_t>& ranks);
  void finish_leaving();

  /// Sees to it that this rank has a connection to a living one above it. Cheap when it has.
  void reconnect();
  std::optional<std::uint32_t> next_above(std::uint32_t rank) const;
  void seek_again(std::chrono::milliseconds pause);
  /// Calls the next rank above, until there is none.
  void seek();
  /// Whether a rank that is yet to be called may not have heard of a failure.
  bool brings_news() const;
  /// Leaving without any connection, or with news: somebody is yet to hear of it.
  void seek_to_leave();
  static asio::awaitable<void> reach(Self self, std::uint32_t peer);
  void introduce(Stream stream, std::uint32_t peer);
  Status answered(Edge& edge, const Frame& frame);
  void missed(std::uint32_t peer, ErrorKind kind);
  /// Nobody listens there any more: others have so long to say why.
  void await_news_of(std::uint32_t rank);
  void await_absent();
  void part_with_absent();

  // liveness_probe.cpp
  void ask_next();
  /// This rank has been waiting for `rank` since then.
  static asio::awaitable<void> ask(Self self, std::uint32_t rank, Clock::time_point since);
  /// The answer; a failure of another kind than peer_lost or mismatch may be one to be slow.
  static asio::awaitable<Result<std::string>> question(Self self, Row row,
                                                       std::chrono::milliseconds patience);
  void asked(std::uint32_t rank);
  /// A rank that was asked gave no answer (`silent`), or one.
  void doubt(std::uint32_t rank, bool silent, Clock::time_point since);

  // cycle.cpp
  /// To those whom this rank waits for in that; first to the one who asked.
  void ask_along(const Publication& asked, const OpenWait& wait);
  /// A question that came to this rank.
  void pursue(const Publication& asked);

  // heartbeat.cpp
  /// On a new connection, where this rank has a limit: the peer is to speak often enough.
  void tell_limit(Edge& edge);
  void send_beat(Edge& edge);
  /// Looks after the connections from now on, where anyone has a limit.
  void keep_watch();
  void look_at_peers();
  Status beat(Edge& edge, std::string_view body);

  asio::io_context& context_;                  // immutable
  const std::weak_ptr<net::Service> service_;  // immutable
  const std::uint32_t rank_;                   // immutable
  const std::uint32_t size_;                   // immutable
  const net::Credentials credentials_;         // immutable
  const std::chrono::milliseconds timeout_;    // immutable
  const std::chrono::milliseconds heartbeat_;  // immutable
  const bool is_whole_job_;                    // immutable
  const Row row_;                              // immutable

  // owner: the service thread
  std::map<std::uint32_t, std::shared_ptr<Edge>> edges_;
  /// To ranks that are lost: what they are told still goes out, what they say is not listened to.
  std::vector<std::shared_ptr<Edge>> dismissed_;
  News news_;
  RollCalls roll_calls_;
  bool will_count_ = false;
  std::uint32_t numbered_ = 0;                                   ///< failures that began here
  std::vector<std::pair<std::uint32_t, std::uint32_t>> parted_;  ///< to pass on: rank, from whom
  bool leaving_ = false;
  asio::steady_timer leave_timer_;

  // owner: the service thread; of cycles
  std::vector<OpenWait> waits_;
  std::uint32_t seeks_ = 0;
  using Sought = std::pair<std::uint64_t, std::uint64_t>;  ///< (communicator, sequence)
  std::map<std::uint32_t, Sought> sought_;                 ///< by the question's number
  /// A question that was passed on: who asks, its number, and the call that was asked about.
  using Pursued = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t>;
  std::set<Pursued> pursued_;
  std::deque<Pursued> pursued_in_order_;  ///< oldest first

  // owner: the service thread; of the heartbeat
  std::chrono::milliseconds period_{0};  ///< between two looks; 0: nobody has a limit
  bool watching_ = false;
  asio::steady_timer watch_timer_;

  // owner: the service thread; of mending
  std::optional<std::uint32_t> above_;  ///< the connection that leads up; none: highest of all
  bool seeking_ = false;
  std::uint32_t tried_ = 0;        ///< the last rank called in this round
  bool passed_over_ = false;       ///< one in this round that may answer later
  std::shared_ptr<Edge> calling_;  ///< one of edges_ that has not answered our hello yet
  /// Nobody listens there, and why is not known; until when others may say it.
  std::map<std::uint32_t, Clock::time_point> absent_;
  std::map<std::uint32_t, Clock::time_point> to_ask_;  ///< whether they are there, and since when
  std::uint32_t last_asked_ = 0;
  std::set<std::uint32_t> looking_;  ///< asked, not answered yet
  std::map<std::uint32_t, Unanswered> unanswered_;
  std::chrono::milliseconds pause_{0};
  asio::steady_timer reconnect_timer_;
  asio::steady_timer absence_timer_;

  // owner: the service thread; of the start-up
  Clock::time_point deadline_{};
  bool begun_ = false;
  bool reported_ = false;
  bool table_complete_ = false;
  std::optional<Status> outcome_;
  /// By rank; kept, to call those who are further away. The nonce is 0 until a rank has come.
  std::vector<Row> rows_;
  std::optional<Failure> claim_;        ///< because of which this rank's job has failed
  std::string told_;                    ///< by rank 0
  std::set<std::uint32_t> unreported_;  ///< children
  std::set<std::uint32_t> unmet_;       ///< peers without a connection yet
  std::string last_trouble_;

  std::mutex actions_mutex_;
  std::deque<std::function<void(Hub&)>> actions_;  // guarded by actions_mutex_

  std::atomic<std::uint64_t> opened_{0};
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::uint64_t> refused_{0};

  Progress progress_;
};

}  // namespace ccoll::control
