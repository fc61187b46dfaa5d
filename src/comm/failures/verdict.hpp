// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's failure: heard of, suspected, or final.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "comm/failures/different_calls.hpp"
#include "comm/progress/owner_flag.hpp"
#include "core/result.hpp"
#include "system/locks.hpp"

namespace ccoll {

/// Keeps the failure that broke the communicator, the one that this rank suspects until others
/// report a better cause, and the news from other ranks. The communicator ends its operations.
class Verdict {
 public:
  using Clock = std::chrono::steady_clock;

  // For the holder of the owner flag:

  /// Whether there is neither a failure, nor a suspicion, nor news, and it is not closed.
  bool is_calm(Owned /*owned*/) const {
    return !broken_ && !suspicion_ && !has_news() && !is_closed();
  }
  const std::optional<Failure>& broken(Owned /*owned*/) const { return broken_; }
  /// Later failures change nothing.
  void break_with(Owned owned, const Failure& failure);

  /// This rank will break with it, unless the control path brings a better cause.
  const std::optional<Failure>& suspicion(Owned /*owned*/) const { return suspicion_; }
  Clock::time_point suspected_until(Owned /*owned*/) const { return suspected_until_; }
  /// False if there is a suspicion already, which stays.
  bool suspect(Owned owned, Failure failure, Clock::time_point until);
  /// Suspects a mismatch. The peer is a rank of the job, and is asked for its call's label.
  bool suspect(Owned owned, DifferentCalls different, std::uint32_t peer, Clock::time_point until);
  /// Whether that label has arrived. It then becomes part of the suspicion's text.
  bool take_label(Owned owned);

  /// Whether there may be news, once for each notify().
  bool take_notice(Owned /*owned*/) { return has_news_.exchange(false, std::memory_order_acquire); }

  // For any thread:

  /// The communicator is closed: what fails from here on is no news to its caller. False if it was
  /// closed before.
  bool close() { return !closed_.exchange(true); }
  bool is_closed() const { return closed_.load(); }
  /// Whether there may be news; costs no lock.
  bool has_news() const { return has_news_.load(std::memory_order_relaxed); }
  void notify() { has_news_.store(true, std::memory_order_release); }
  /// Takes a failure that the control path has reported. False if one came before, which stays.
  bool hear(const Failure& failure);
  std::optional<Failure> heard() const;
  /// The same, but only if no rank is to blame for it. Copies nothing otherwise: a caller without
  /// memory must not fail.
  std::optional<Failure> heard_without_culprit() const;
  /// The failure that broke it, else the news.
  std::optional<Failure> first() const;
  /// Takes a peer's answer about the label of its call; the last one counts.
  void hear_label(MadeCall theirs);

  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { shared_.forget_lock(); }

 private:
  struct Shared {
    std::optional<Failure> news;
    std::optional<Failure> broken;  ///< as broken_
    std::optional<MadeCall> label;  ///< without its signature
  };

  std::optional<Failure> broken_;
  std::optional<Failure> suspicion_;
  std::optional<DifferentCalls> different_;  ///< if the suspicion is a mismatch
  Clock::time_point suspected_until_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> has_news_{false};
  Guarded<Shared> shared_;
};

}  // namespace ccoll
