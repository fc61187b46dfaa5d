// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for calls that wait for long: it tells control which ranks this rank waits
/// for, asks those where they stand, hears whether ranks wait for each other in a cycle, and
/// reports each long wait once. It ends nothing: its texts become part of other failures.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/collectives/collective_operation.hpp"
#include "comm/failures/stands.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/record/record.hpp"
#include "comm/under_way.hpp"

namespace ccoll {

struct MessageOperation;

/// A rank that has waited this long publishes the call in which it waits.
inline constexpr std::chrono::milliseconds kPublishAfter{50};

class Waits {
 public:
  /// How often a rank repeats what it has published, which may get lost while ranks are leaving.
  /// After this long it also asks about awaited ranks that never connected: a goodbye may be lost.
  static constexpr std::chrono::milliseconds kAgain{1000};

  Waits(const Self& self, const UnderWay& under_way, Record& record)
      : self_(self), under_way_(under_way), stands_(record.history(), record.clocks()) {}

  /// Where ranks stand, as they say; by its own remarks.
  Stands& stands() { return stands_; }

  // cycles.cpp
  /// Tells control which ranks this rank waits for; taken back once anything moves.
  void report(Owned owned);
  bool are_reported(Owned owned) const { return reported_(owned); }
  void take_back(Owned owned);
  /// Looks once, shortly before an operation's time limit, whether ranks wait in a cycle; true when
  /// that moment is now.
  bool seek_cycle(Owned owned, Operation& operation, std::uint64_t sequence, Clock::time_point now,
                  Clock::time_point& next);
  /// "; ranks wait in a cycle: …", if so; empty if that is not known.
  std::string cycle_of(std::uint64_t sequence) const;
  /// Asks the ranks that the call waits for, at this step or later, shortly before its time limit.
  void ask_for_stands(Owned owned, const CollectiveOperation& operation, Clock::time_point now);
  /// The same for any ranks: they know nothing about messages, and answer with their own position.
  void ask_for_stands(Owned owned, Stands::Question question);
  /// Tells rank `peer` of the job where this rank stands in that call.
  void answer(std::uint32_t peer, std::uint64_t sequence, Clock::time_point now);
  /// Has control find out which of `ranks` have left without a goodbye arriving.
  void look_for(const std::vector<Rank>& ranks);
  /// Whether to look for ranks that messages wait for, again or for the first time.
  bool looks_again(Owned owned, Clock::time_point now);
  /// Asks at most 32 of `ranks`, in turn, whether they have left this communicator. A link that was
  /// never opened reports nothing, and control reports only ranks that leave the job.
  void ask_whether_closed(Owned owned, std::vector<Rank> ranks);
  /// The same for ranks that messages wait for.
  void ask_for_messages(Owned owned, std::vector<Rank> ranks, Clock::time_point now);
  /// Whether messages asked at least kAgain ago.
  bool messages_ask_again(Owned owned, Clock::time_point now) const {
    return now - messages_asked_at_(owned) >= kAgain;
  }

  // long_waits.cpp
  /// For a call that timed out: its progress, how long it stands there, the ranks it waits for.
  std::string whereabouts(Owned owned, const CollectiveOperation& operation,
                          Clock::time_point now) const;
  /// Whether the operation has just reached the next stage of a long wait.
  LongWait long_wait(Owned owned, Operation& operation, Clock::time_point now,
                     Clock::time_point& next) const;
  void look_at_long_wait(Owned owned, CollectiveOperation& operation, Clock::time_point now,
                         Clock::time_point& next);
  void log_long_waits(Owned owned, std::span<const std::shared_ptr<MessageOperation>> late,
                      Clock::time_point now) const;

 private:
  const Self& self_;
  const UnderWay& under_way_;
  Stands stands_;
  OwnersOnly<bool> reported_{false};      ///< to control
  OwnersOnly<Clock::time_point> looked_;  ///< for ranks that messages wait for
  OwnersOnly<Clock::time_point> messages_asked_at_;
  OwnersOnly<Rank> last_rank_asked_{0};
};

}  // namespace ccoll
