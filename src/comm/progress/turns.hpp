// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The thread that may move a communicator's operations on, and the moments when they moved.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "comm/progress/owner_flag.hpp"

namespace ccoll {

/// One of the threads that wait for calls holds the owner flag, polls and sleeps; the others rest
/// in the flag's queue. A movement may have ended their calls, or may let them go on. The flag then
/// passes round until it reaches a thread that has looked since. The flag's holder calls all
/// methods but those that take the flag.
class Turns {
 public:
  using Clock = std::chrono::steady_clock;

  std::optional<Owned> try_own() { return flag_.try_take(); }
  /// Waits for the flag. `ring` wakes its holder, which checks is_wanted() before it sleeps; once
  /// is enough.
  template <typename Ring>
  Owned wait_to_own(Ring ring) {
    const auto ticket = flag_.queue();
    ring();
    return flag_.wait(ticket);
  }
  void disown(Owned owned) { flag_.give_back(owned); }
  /// Whether a thread waits for the flag: a waiting owner then lets it in.
  bool is_wanted() const { return flag_.waiting() > 0; }
  /// In a forked child, whose other threads are gone.
  void forget() { flag_.forget(); }
  /// For the child's only thread, which may have had the flag when it forked.
  void own_again() { flag_.take_again(); }

  /// Whether a thread must let the others have the flag. `rested`: what rest() last returned to it.
  bool must_pass(std::optional<std::uint64_t> rested) const {
    const auto waiting = flag_.waiting();
    return waiting > resting_ || (waiting > 0 && rested != movements_);
  }
  /// Lets the others have the flag and returns with it. `limit`: when this thread's wait ends.
  /// Returns the number of movements before.
  std::uint64_t rest(Owned owned, Clock::time_point limit) {
    const auto movements = movements_;
    rest_until_ = std::min(rest_until_, limit);
    resting_++;
    flag_.pass_round(owned);
    resting_--;
    return movements;
  }
  /// The first limit of the threads that rest: the flag's holder must not sleep longer.
  Clock::time_point rest_until() const { return rest_until_; }
  /// Lets all look whether their wait ends, once one of their limits has passed.
  void end_rests(Clock::time_point now) {
    if (now < rest_until_) return;
    rest_until_ = Clock::time_point::max();
    movements_++;
  }

  /// Something has begun.
  void begin() { moved_ = true; }
  /// Something has moved in a round.
  void move() {
    moved_ = true;
    movements_++;
  }
  /// An operation has ended without a movement.
  void end_one() { movements_++; }
  /// Supervision begins to look at what stands still.
  void look(Clock::time_point now) {
    if (moved_) last_moved_ = now;
    moved_ = false;
  }
  /// The last look that found a movement.
  Clock::time_point last_moved() const { return last_moved_; }

 private:
  OwnerFlag flag_;
  std::uint32_t resting_ = 0;    ///< threads that have waited in the flag's queue already
  std::uint64_t movements_ = 0;  ///< rounds in which anything moved
  bool moved_ = true;            ///< since the last look
  Clock::time_point rest_until_ = Clock::time_point::max();
  Clock::time_point last_moved_;
};

}  // namespace ccoll
