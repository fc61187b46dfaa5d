// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that learns that calls cannot succeed, ends them, and tells their caller
/// and the other ranks why.
///
/// A failure is heard from another rank, suspected from a broken link until the cause is known, or
/// made by a call here. The first one that counts breaks the communicator: all operations end.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "comm/failures/departures.hpp"
#include "comm/failures/verdict.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/record.hpp"
#include "comm/under_way.hpp"
#include "core/result.hpp"

namespace ccoll {

class Failures {
 public:
  /// Parts that a failure concerns beside the operations under way.
  class Audience {
   public:
    /// The communicator breaks: its operations are about to end.
    virtual void breaks(Owned owned) noexcept = 0;
    /// They have ended, and the other ranks have been told if they had to be. `first`: the
    /// communicator was not broken before.
    virtual void broke(Owned owned, bool first) = 0;
    /// The control path has reported a failure. Any thread may call it.
    virtual void heard(const Failure& failure) = 0;
    /// This rank of the job has gone; `here`: its rank here, if it has one. Any thread may call it.
    virtual void departed(std::uint32_t rank, std::optional<Rank> here) = 0;

   protected:
    ~Audience() = default;
  };

  Failures(const Self& self, Progress& progress, Record& record, UnderWay& under_way,
           Audience& audience)
      : self_(self),
        progress_(progress),
        record_(record),
        under_way_(under_way),
        audience_(audience) {}

  /// Failures heard of, suspected and final; by its own remarks.
  Verdict& verdict() { return verdict_; }
  const Verdict& verdict() const { return verdict_; }
  /// The ranks that have gone; by its own remarks.
  const Departures& departures() const { return departures_; }

  // For the holder of the owner flag:

  /// Whether nothing is under way and nothing wrong: a short call may be made at once.
  bool is_calm(Owned owned) const { return under_way_.is_idle(owned) && verdict_.is_calm(owned); }
  /// Fails if the communicator is broken.
  Status usable(Owned owned);
  const std::optional<Failure>& broken(Owned owned) const { return verdict_.broken(owned); }
  /// True if the news breaks the communicator. `may_wait`: while anything moves, calls that a
  /// rank's loss has ended elsewhere may still end well here, with data that has arrived.
  bool take_news(Owned owned, bool may_wait = false);
  /// A call failed here: breaks the communicator, or suspects a failure that may be a symptom.
  void failed(Owned owned, Failure failure);
  /// Ends every operation with `failure`; `tell`: also on the other ranks.
  void break_with(Owned owned, const Failure& failure, bool tell);
  /// Breaks the communicator on all ranks: progress threw (out of memory, or a defect).
  void threw(Owned owned, const Failure& failure);
  /// Returns the optional from `step`; nothing if it throws, which breaks the communicator.
  template <typename Step>
  auto guarded(Owned owned, Step step) -> decltype(step()) {
    try {
      return step();
    } catch (...) {
      threw(owned, failure_of(std::current_exception()));
      return std::nullopt;
    }
  }
  /// Ends everything if a rank is lost, and calls under way, or the next one, need it, and nothing
  /// has moved for long; true if so. Lowers `next` to when that may be.
  bool end_by_old_loss(Owned owned, Clock::time_point now, Clock::time_point& next);

  // For other threads:

  /// As threw(), outside of progress: `call` threw half-way, and the other ranks would wait for it.
  /// Takes the owner flag; throws.
  [[noreturn]] void call_threw(std::string_view call, Failure failure, std::string_view label);
  /// Ends devices' calls at once; the next progress ends the others with it, if it is the first.
  void hear(const Failure& failure);
  /// Notes that this rank of the job has gone.
  void depart(std::uint32_t rank, Departure how, const Failure& why);
  /// Notes that rank `here` has left this communicator; its process may still be in others.
  void peer_left(Rank here, const Failure& why) { add_gone(here, Departure::left, why); }
  /// The failure that the control path has reported.
  std::optional<Failure> news() const;
  /// The failure that ended it, as far as this rank knows.
  std::optional<Failure> first() const;
  /// The text of Communicator::error(): empty while there is no failure.
  std::string first_text() const;
  static Failure destroyed();

  /// In a forked child, where the threads that held the locks may be gone.
  void forget_locks();

 private:
  /// Breaks with `failure` when `grace` is over, unless the control path brings a cause.
  void suspect(Owned owned, Failure failure, Clock::duration grace);
  /// As break_with() in a forked child, where links and files are the parent's.
  void break_copy(Owned owned, const Failure& failure);
  void add_gone(Rank here, Departure how, const Failure& why);
  /// Tells the links which ranks have gone.
  void take_departures(Owned owned);
  void end_by_loss(Owned owned, const Failure& loss);
  /// Counts the failure for the ranks that caused it. Runs before operations end with it.
  void note(Owned owned, const Failure& failure) noexcept;

  const Self& self_;
  Progress& progress_;
  Record& record_;
  UnderWay& under_way_;
  Audience& audience_;
  Verdict verdict_;
  Departures departures_;
};

}  // namespace ccoll
