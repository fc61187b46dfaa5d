// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The news that this rank has heard: failures and departures. Every observer that an item concerns
/// hears it once, also later subscribers. Knows nothing of connections. Service thread only;
/// observers are called there.

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
  /// Limit of remembered failures of communicators that this rank is not in; beyond it, the oldest
  /// are forgotten. All of it goes over each new connection. Losses, departures and failures of all
  /// communicators are never forgotten: there are at most as many as ranks, except those that one
  /// rank blames on others.
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
  /// Number of peers' waits that are kept for an observer yet to come; the latest ones.
  static constexpr std::size_t kMaxWaiting = 64;

  explicit News(std::uint32_t size, std::size_t max_bytes = kMaxBytes)
      : size_(size), max_bytes_(max_bytes) {}

  /// True if it is new: then forward it, and notify the observers afterwards (one of them may end
  /// this rank's part at once). Only the first failure of a communicator counts: the peers have
  /// heard of it, or will. If all were passed on, n ranks that lose patience together would cost n
  /// floods.
  bool learn(const FailureNews& news);
  void tell(const FailureNews& news);
  /// Reports to every observer a failure of all communicators that no other rank will hear of.
  /// Allocates no memory.
  void cry(const Failure& failure) noexcept;
  /// As learn(), for a departure.
  bool learn_left(std::uint32_t rank);
  void tell_left(std::uint32_t rank);
  bool has_left(std::uint32_t rank) const { return left_.contains(rank); }
  /// Whether it has left or was lost.
  bool is_gone(std::uint32_t rank) const { return has_left(rank) || seen_.contains({rank, 0}); }
  bool has_losses() const;
  /// The failure by which it was lost, if it was.
  std::optional<Failure> loss_of(std::uint32_t rank) const;
  /// Whether roll calls go on without it: it is gone, or to blame for a failure of everyone.
  bool is_out(std::uint32_t rank) const;
  const std::set<std::uint32_t>& departures() const { return left_; }
  /// All remembered failures, for a peer that may have missed them.
  std::vector<FailureNews> failures() const;
  bool has_failed(std::uint64_t communicator) const { return failures_.contains(communicator); }
  /// The first failure of all communicators, if any.
  std::optional<Failure> general_failure() const;

  /// Failures for everyone that the observers' comparisons have found.
  using Findings = std::vector<std::pair<std::uint64_t, Failure>>;
  Findings waiting(std::uint32_t peer, const Waiting& waiting);

  /// False if the communicator has no observer.
  bool has_begun(std::uint64_t communicator, std::uint64_t sequence);
  void tell_cycle(std::uint64_t communicator, std::uint64_t sequence, const std::string& cycle);

  Findings subscribe(std::uint64_t communicator, std::weak_ptr<ControlObserver> observer);
  void unsubscribe(std::uint64_t communicator) { observers_.erase(communicator); }

 private:
  /// Tells a failure of all communicators, or a loss.
  static void tell(const FailureNews& general, ControlObserver& observer);
  /// The observers that live; forgets the others.
  std::vector<std::shared_ptr<ControlObserver>> everyone();
  /// Whether a failure of everyone repeats an earlier one of the same origin and culprit.
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
