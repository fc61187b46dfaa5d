// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Sets up a rank's connections: the rows of each subtree go up the tree, the whole table comes
/// down, and then each rank calls its ring successor. That takes three messages per tree edge and
/// two greetings per connection: O(1) messages per rank, O(log n) in sequence. Service thread only.

#include <asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "control/connections/caller.hpp"
#include "control/connections/edges.hpp"
#include "control/connections/reconnection.hpp"
#include "control/connections/tasks.hpp"
#include "control/flooding.hpp"
#include "control/start_up_failure.hpp"
#include "control/state/progress.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"
#include "control/state/traffic_count.hpp"
#include "control/wire.hpp"
#include "core/deadline.hpp"

namespace ccoll::control {

class StartUp {
 public:
  /// Both call other ranks, and their owner takes the connections.
  class Owner : public Reconnection::Owner {
   public:
    /// The start-up has failed.
    virtual void leave() = 0;
  };

  StartUp(const Caller& caller, Stage& stage, Roster& roster, Edges& edges, Flooding& flooding,
          Reconnection& reconnection, const Tasks& tasks, TrafficCount& traffic, Progress& progress,
          Owner& owner);

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

  /// Rows have come from a child, or the table from the parent.
  Status gathered(std::uint32_t child, std::string_view body);
  Status table(std::uint32_t parent, std::string_view body);
  /// Takes the next step of the start-up, if it is due.
  void advance();
  /// Everyone has heard of the failure, or will.
  void fail_for_all(const Failure& failure);
  /// Ends it with that outcome for this rank, whose waiting threads hear it.
  void decide(const Status& outcome);
  /// A connection was not made, for that reason.
  void note_trouble(std::string trouble) { last_trouble_ = std::move(trouble); }

 private:
  asio::awaitable<Status> call(std::uint32_t peer, Row row);
  asio::awaitable<void> attempt(std::shared_ptr<void> kept, Row parent);
  asio::awaitable<void> check_claim(std::shared_ptr<void> kept, Row other);
  void tell_attempt(Status status);
  asio::awaitable<void> call_successor(std::shared_ptr<void> kept);
  /// The table is complete: sends it down the tree, and calls the ring successor.
  void pass_on_table();

  const Caller& caller_;
  Stage& stage_;
  Roster& roster_;
  Edges& edges_;
  Flooding& flooding_;
  Reconnection& reconnection_;
  const Tasks& tasks_;
  TrafficCount& traffic_;
  Progress& progress_;
  Owner& owner_;
  std::string last_trouble_;
};

}  // namespace ccoll::control
