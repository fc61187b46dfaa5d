// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Keeps the remaining ranks connected as others go. Every rank but the highest that lives keeps a
/// connection to one above it, so from each a path leads up to the highest. That is first its ring
/// successor and, when that has gone, the next above that answers. Only the lower of two ranks
/// calls, so no two call each other. A departure costs each rank that kept its connection to it
/// (usually one) one call. It costs the leaving rank one if it knows of a failure and had yet to
/// find the next rank above, which may have missed it. Service thread only.

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "control/connections/absences.hpp"
#include "control/connections/caller.hpp"
#include "control/connections/edges.hpp"
#include "control/connections/tasks.hpp"
#include "control/flooding.hpp"
#include "control/state/ascent.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"
#include "control/wire.hpp"

namespace ccoll::control {

class Reconnection {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Adds an established connection; sends `greeting`, if any, and news the peer may have missed.
    virtual std::shared_ptr<Edge> meet(net::Stream stream, std::uint32_t peer,
                                       const PeerAddress& address, const std::string& greeting) = 0;
    /// A peer that this rank called has let it in.
    virtual void welcomed(Edge& edge) = 0;
    /// This rank leaves, and has nobody left to tell.
    virtual void finish_leaving() = 0;
  };

  struct Pauses {
    /// It follows a departure: at the end of a job all ranks leave at once, and connections to them
    /// would be useless.
    std::chrono::milliseconds departure{50};
    Ascent::Pause round = Ascent::kFirstPause;  ///< the first between two rounds
  };

  Reconnection(const Caller& caller, const Roster& roster, const Stage& stage, Edges& edges,
               Absences& absences, Flooding& flooding, const Tasks& tasks, Owner& owner,
               const Pauses& pauses);

  /// Ensures a connection to a living rank above this one. Cheap if there is one.
  void ensure();
  /// Whether this rank looks for one.
  bool is_on() const { return ascent_.is_on(); }
  /// On leaving: calls a rank if there is no connection, or news that some rank may have missed.
  void leave();
  /// The answer to a hello of this rank.
  Status answered(Edge& edge, const Frame& frame);
  /// The connection is over. Returns whether the peer had not answered yet; then others are called.
  bool ended(const Edge& edge);
  void stop();

 private:
  std::optional<std::uint32_t> next_above(std::uint32_t rank) const;
  void seek_again(std::chrono::milliseconds pause);
  /// Calls the next rank above, until there is none.
  void seek();
  /// Whether a rank that is yet to be called may have missed a failure.
  bool brings_news() const;
  asio::awaitable<void> reach(std::shared_ptr<void> kept, std::uint32_t peer);
  void introduce(net::Stream stream, std::uint32_t peer);
  void missed(std::uint32_t peer, ErrorKind kind);

  const Caller& caller_;
  const Roster& roster_;
  const Stage& stage_;
  Edges& edges_;
  Absences& absences_;
  Flooding& flooding_;
  const Tasks& tasks_;
  Owner& owner_;
  const std::chrono::milliseconds delay_;
  Ascent ascent_;
  std::optional<std::uint32_t> above_;  ///< the peer above this rank; none: it is the highest
  std::shared_ptr<Edge> calling_;       ///< a connection whose peer has not answered our hello yet
  asio::steady_timer timer_;
};

}  // namespace ccoll::control
