// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Passes what every rank must hear along all control connections: failures, departures, and words
/// in roll calls. A rank passes each on once, when it is new here, and tells its own observers.
/// Service thread only.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/connections/edges.hpp"
#include "control/connections/tasks.hpp"
#include "control/control.hpp"
#include "control/news.hpp"
#include "control/roll_call.hpp"
#include "control/wire.hpp"

namespace ccoll::control {

class Flooding {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// From here on, what that rank sends is ignored. The observers have yet to hear of its loss.
    virtual void lost(std::uint32_t rank) = 0;
    /// The observers have heard a failure of every communicator, such as a loss.
    virtual void job_failed(const Failure& failure) = 0;
    /// A rank was lost or has left, and the observers have heard it.
    virtual void gone() = 0;
  };

  /// Stands for no rank.
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  Flooding(std::uint32_t rank, std::uint32_t size, News& news, Edges& edges, const Tasks& tasks,
           Owner& owner);

  const News& news() const { return news_; }

  /// As Control's.
  void subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer);
  void unsubscribe(std::uint64_t communicator);
  /// Whether this rank had that communicator and has left it; only the latest are remembered.
  bool has_closed(std::uint64_t communicator) const { return roll_calls_.has_closed(communicator); }
  void flood(std::uint64_t communicator, const Failure& failure);
  void call_roll(const RollCall& call, std::shared_ptr<Headcount> count);
  void give_up(const RollCall& call, const Failure& why);
  /// Floods what the observers' comparisons have found.
  void settle(const News::Findings& findings);

  /// News that this rank has heard from rank `from`, or found itself (kNobody).
  void spread(const FailureNews& news, std::uint32_t from);
  void part_with(std::uint32_t rank, std::uint32_t from);
  void hear(const Answer& answer, std::uint32_t from);
  /// This rank has found that `peer` is lost.
  void lose(std::uint32_t peer, const PeerAddress& address, const std::string& why);
  /// This rank leaves.
  void say_goodbye();

  /// Sends what the peer of a new connection may have missed.
  void catch_up(Edge& edge);
  /// There is no memory to report a failure: threads that wait here get one that needs none, and
  /// other ranks see this rank as lost.
  void fall_silent(const Failure& failure) noexcept;

 private:
  /// Reports to the peers the departures that have not been passed on yet.
  void pass_on_departures();
  void send_departures(Edge& edge, const std::vector<std::uint32_t>& ranks);
  /// Advances roll calls as far as news and answers allow.
  void count();
  /// Calls count() once for all that is heard in one turn: it goes through all answers.
  void count_soon();

  const std::uint32_t rank_;
  const std::uint32_t size_;
  News& news_;
  Edges& edges_;
  const Tasks& tasks_;
  Owner& owner_;
  RollCalls roll_calls_;
  bool will_count_ = false;
  std::uint32_t numbered_ = 0;                                   ///< failures that began here
  std::vector<std::pair<std::uint32_t, std::uint32_t>> parted_;  ///< to pass on: (rank, from)
};

}  // namespace ccoll::control
