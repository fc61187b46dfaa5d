// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of a communicator agree on which of them are gone. Every rank announces to everyone
/// which ranks it counts as gone, and adds those that others count. It has decided once all that it
/// does not count as gone say the same as itself, or as soon as one of those has decided. A rank
/// that has decided says nothing else.
///
/// So any two ranks that do not count each other as gone decide the same. A rank's set only grows.
/// Let a decide A and b decide B, neither gone for the other. If neither took over a decision,
/// everyone outside A said A, b too, and a said B. As b's last word is B, A is part of B, and
/// likewise B of A. If a took over d's decision, d is not gone for a. As a had said B, d is not in
/// B and has said B too; and so on along the chain to the rank that decided first.
///
/// Every rank passes on what every other says, also for communicators that it is not in. A rank
/// numbers its words (Answer::said), and they arrive in that order everywhere. Each connection
/// keeps it, every rank passes words on at once, and a new connection begins with all remembered
/// words. So the number of each rank's last word decides for ever what is new, whatever else is
/// forgotten. An older word does not make up for one that was missed.
///
/// This is one rank's part. It knows nothing of connections: learn() takes the words of others,
/// take() returns those to send to everyone. Service thread only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "control/control.hpp"
#include "control/news.hpp"
#include "control/wire.hpp"
#include "core/latest.hpp"

namespace ccoll::control {

class RollCalls {
 public:
  /// Limit of remembered roll calls in which this rank has no part; beyond it, the oldest are
  /// forgotten. All of it goes over each new connection.
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

  /// Limit of remembered closed communicators, so that a process does not grow with them.
  static constexpr std::size_t kMaxClosed = 4096;

  explicit RollCalls(std::uint32_t self, std::size_t max_bytes = kMaxBytes)
      : self_(self), max_bytes_(max_bytes) {}

  /// Takes part in it; `count` gets its result.
  void begin(const RollCall& call, std::shared_ptr<Headcount> count);
  /// This rank stops waiting, or failed before it began; `why` is a reason for all to stop.
  void give_up(const RollCall& call, const Failure& why);
  /// The communicator is one of this rank's: words about it are kept until it closes.
  void open(std::uint64_t communicator) { open_.insert(communicator); }
  /// Ends this rank's part in the communicator's roll calls, and says so in any later one, for as
  /// long as it is among the last kMaxClosed.
  void close(std::uint64_t communicator);
  /// Whether it was closed, as far back as that is remembered, and is not open again.
  bool has_closed(std::uint64_t communicator) const {
    return closed_.contains(communicator) && !open_.contains(communicator);
  }

  /// True if it is new; then forward it.
  bool learn(const Answer& answer);
  /// All remembered answers, for a peer that may have missed them.
  std::vector<Answer> answers() const;
  /// Advances the roll calls by what is known.
  void advance(const News& news);
  /// This rank's words for everyone since the last call.
  std::vector<Answer> take() { return std::exchange(to_tell_, {}); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  ///< (communicator, number)
  using Ranks = std::set<std::uint32_t>;
  struct Known {
    std::map<std::uint32_t, Answer> answers;  ///< by rank, the latest
    RollCall call;                            ///< if this rank takes part
    std::shared_ptr<Headcount> waiting;       ///< null if it does not wait
    std::size_t bytes = 0;                    ///< of the answers
  };

  Known& known(const Key& key);
  /// Replaces that rank's earlier answer.
  void keep(Known& known, const Answer& answer);
  void forget_oldest();
  /// Whether the words of that roll call may still be needed.
  bool is_needed(const Key& key) const;
  Ranks gone_in(const Known& known, const News& news) const;
  void advance(Known& known, const News& news);
  /// Whether another rank's word ends this rank's part.
  bool ended_by_others(Known& known, const Ranks& gone);
  void decide(Known& known, const std::vector<std::uint32_t>& gone);
  /// `why`: none keeps the earlier reason.
  void say(Known& known, const Key& key, Answer::State state, std::vector<std::uint32_t> gone,
           std::optional<Failure> why = std::nullopt);
  void say_closed(Known& known, const Key& key);
  void end(Known& known, Result<std::vector<std::uint32_t>> outcome);

  const std::uint32_t self_;
  const std::size_t max_bytes_;
  std::map<Key, Known> calls_;
  std::deque<Key> in_order_;  ///< the keys of calls_, oldest first
  std::size_t bytes_ = 0;     ///< of all answers
  std::set<Key> waiting_;     ///< roll calls for which this rank waits
  std::set<std::uint64_t> open_;
  Latest<std::uint64_t, kMaxClosed> closed_;
  std::map<std::uint32_t, std::uint64_t> heard_;  ///< by rank: number of its last word
  std::uint64_t said_ = 0;                        ///< number of this rank's last word
  std::vector<Answer> to_tell_;
};

}  // namespace ccoll::control
