// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What this rank has heard: failures and departures, each told to every observer that it concerns
/// once, also to those who subscribe later. Knows nothing of connections. Everything happens on the
/// service thread, where observers are called.

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
#include "control/wire.hpp"

namespace ccoll::control {

class News {
 public:
  /// So much is remembered of failures of communicators that this rank is not in; of more, the
  /// oldest are forgotten. All of it goes over each new connection. Losses, departures and failures
  /// of all communicators are never forgotten: there are at most as many as ranks, but for those
  /// that one rank blames on others.
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
  /// A peer's waiting is kept for an observer yet to come, for the last so many.
  static constexpr std::size_t kMaxWaiting = 64;

  explicit News(std::uint32_t size, std::size_t max_bytes = kMaxBytes)
      : size_(size), max_bytes_(max_bytes) {}

  /// True when this is new: then it is to be forwarded, and told to the observers thereafter (one
  /// of them may end this rank's part at once). Of the failures of one communicator only the first
  /// counts: the peers have heard of that one, or will, and a rank that passed on all would cost n
  /// floods when n ranks lose patience together.
  bool learn(const FailureNews& news);
  void tell(const FailureNews& news);
  /// Tells every observer of a failure of all communicators that nobody else will hear of, with no
  /// memory of its own.
  void cry(const Failure& failure) noexcept;
  /// The same for a departure.
  bool learn_left(std::uint32_t rank);
  void tell_left(std::uint32_t rank);
  bool has_left(std::uint32_t rank) const { return left_.contains(rank); }
  /// Has left, or was lost.
  bool is_gone(std::uint32_t rank) const { return has_left(rank) || seen_.contains({rank, 0}); }
  bool has_losses() const;
  /// How it was lost, if it was.
  std::optional<Failure> loss_of(std::uint32_t rank) const;
  /// Gone, or to blame for a failure of every communicator: whom a roll call does not wait for.
  bool is_out(std::uint32_t rank) const;
  const std::set<std::uint32_t>& departures() const { return left_; }
  /// All that were news, for a peer that may not have heard them.
  std::vector<FailureNews> failures() const;
  bool has_failed(std::uint64_t communicator) const { return failures_.contains(communicator); }
  /// The first failure of all communicators, if any.
  std::optional<Failure> general_failure() const;

  /// What the observers' comparison came to, as failures for everyone.
  using Findings = std::vector<std::pair<std::uint64_t, Failure>>;
  Findings waiting(std::uint32_t peer, const Waiting& waiting);

  /// False where nobody listens for the communicator.
  bool has_begun(std::uint64_t communicator, std::uint64_t sequence);
  void tell_cycle(std::uint64_t communicator, std::uint64_t sequence, const std::string& cycle);

  Findings subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer);
  void unsubscribe(std::uint64_t communicator) { observers_.erase(communicator); }

 private:
  /// A failure of all communicators, or a loss.
  static void tell(const FailureNews& general, ControlObserver& observer);
  /// Observers that still live; the others are forgotten.
  std::vector<std::shared_ptr<ControlObserver>> everyone();
  /// Whether a failure of everyone is the same in other words, for all that it is good for.
  bool is_repeated(const FailureNews& news) const;
  void forget_oldest();
  std::shared_ptr<ControlObserver> observer_of(std::uint64_t communicator);

  const std::uint32_t size_;
  const std::size_t max_bytes_;
  std::map<std::uint64_t, std::weak_ptr<ControlObserver>> observers_;
  using Key = std::pair<std::uint32_t, std::uint32_t>;  ///< (origin, number)

  std::set<Key> seen_;
  std::map<std::uint64_t, FailureNews> failures_;  ///< the first, by communicator
  std::deque<std::uint64_t> in_order_;             ///< the keys of failures_, oldest first
  std::size_t bytes_ = 0;                          ///< of failures_
  std::vector<FailureNews> general_;               ///< of every communicator, in order
  std::set<std::uint32_t> left_;
  std::deque<std::pair<std::uint32_t, Waiting>> unheard_;
};

}  // namespace ccoll::control
