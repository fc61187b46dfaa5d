// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the ranks of a communicator agree on who of them is gone. Every rank tells everyone which
/// ranks it counts as gone, and takes over what others count; it has decided once all whom it does
/// not count as gone say the same as itself, or as soon as one of those has decided. A rank that
/// has decided says nothing else any more.
///
/// So any two ranks that do not count each other as gone decide the same. What a rank counts only
/// grows. Let a decide A, b decide B, neither gone for the other. Where nobody took over a
/// decision, A was said by everyone outside of A, b too, and B by a: what b said last is B, so A is
/// a part of B, and B of A. Where a took over from d, then not gone for a: a had said B, so d is
/// not in B and has said B as well; and so on along the chain to the one who decided first.
///
/// Every rank passes on what every other says, also of communicators that it is not in. A rank
/// counts all that it says (Answer::said), and words of one rank come in that order wherever they
/// come: each connection keeps it, everyone passes on at once, and a new connection begins with all
/// that is remembered. So the number of the last word of each rank tells what is new, for ever,
/// whatever else is forgotten; and a word that was missed is not made up for by an older one.
///
/// This is one rank's part. Knows nothing of connections: what others say comes by learn(), what is
/// to be told to everyone goes out by take(). Everything happens on the service thread.

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
  /// So much is remembered of roll calls in which this rank has no part any more, or never had; of
  /// more, the oldest are forgotten. All of it goes over each new connection.
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

  /// Communicators that come and go are not to make a process grow.
  static constexpr std::size_t kMaxClosed = 4096;

  explicit RollCalls(std::uint32_t self, std::size_t max_bytes = kMaxBytes)
      : self_(self), max_bytes_(max_bytes) {}

  /// This rank takes part; `count` is told how it ends.
  void begin(const RollCall& call, std::shared_ptr<Headcount> count);
  /// This rank waits no longer, or failed before it could begin, and for this reason nobody waits.
  void give_up(const RollCall& call, const Failure& why);
  /// The communicator is one of this rank's: what is said of it is kept until it closes.
  void open(std::uint64_t communicator) { open_.insert(communicator); }
  /// This rank takes part in no roll call of the communicator any more, and says so to whoever
  /// begins one: for as long as it is among the last kMaxClosed.
  void close(std::uint64_t communicator);

  /// True when this is new: then it is to be forwarded.
  bool learn(const Answer& answer);
  /// All that is remembered, for a peer that may not have heard it.
  std::vector<Answer> answers() const;
  /// Goes on with what is known by now.
  void advance(const News& news);
  /// What this rank has to tell everyone since the last time.
  std::vector<Answer> take() { return std::exchange(to_tell_, {}); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  ///< (communicator, number)
  using Ranks = std::set<std::uint32_t>;
  struct Known {
    std::map<std::uint32_t, Answer> answers;  ///< by rank, the latest
    RollCall call;                            ///< where this rank takes part
    std::shared_ptr<Headcount> waiting;       ///< null: it does not, or no longer
    std::size_t bytes = 0;                    ///< of the answers
  };

  Known& known(const Key& key);
  /// In place of what that rank said before.
  void keep(Known& known, const Answer& answer);
  void forget_oldest();
  /// Whether this rank may still need to know what was said.
  bool is_needed(const Key& key) const;
  Ranks gone_in(const Known& known, const News& news) const;
  void advance(Known& known, const News& news);
  /// Whether somebody else's word ends this rank's part.
  bool ended_by_others(Known& known, const Ranks& gone);
  void decide(Known& known, const std::vector<std::uint32_t>& gone);
  /// `why`: none for the same as before.
  void say(Known& known, const Key& key, Answer::State state, std::vector<std::uint32_t> gone,
           std::optional<Failure> why = std::nullopt);
  void say_closed(Known& known, const Key& key);
  void end(Known& known, Result<std::vector<std::uint32_t>> outcome);

  const std::uint32_t self_;
  const std::size_t max_bytes_;
  std::map<Key, Known> calls_;
  std::deque<Key> in_order_;  ///< the keys of calls_, oldest first
  std::size_t bytes_ = 0;     ///< of all answers
  std::set<Key> waiting_;     ///< where this rank waits
  std::set<std::uint64_t> open_;
  Latest<std::uint64_t, kMaxClosed> closed_;
  std::map<std::uint32_t, std::uint64_t> heard_;  ///< by rank: the last that it said
  std::uint64_t said_ = 0;                        ///< so many words are this rank's
  std::vector<Answer> to_tell_;
};

}  // namespace ccoll::control
