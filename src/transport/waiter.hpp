// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The one place where a rank sleeps: an epoll set of its sockets and one eventfd that its peers
/// and the service thread ring.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "core/result.hpp"

namespace ccoll {

class Waiter {
 public:
  static Result<std::shared_ptr<Waiter>> make();
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Announces the sleep. What is looked at after this call and before sleep() cannot change
  /// without ending the sleep: a peer's seq_cst store of its news comes either before that look or
  /// before its ring_if_asleep, which then sees the announcement.
  void prepare() { asleep_.store(true, std::memory_order_seq_cst); }
  /// Until something happens or `limit` has passed.
  void sleep(std::chrono::nanoseconds limit);
  /// Whether a sleep is announced: by the last who held the owner flag and has not taken it back.
  bool announced() const { return asleep_.load(std::memory_order_relaxed); }
  /// Takes the announcement back.
  void awake() { asleep_.store(false, std::memory_order_relaxed); }

  /// By a peer that shares memory, after the seq_cst store that publishes its news.
  void ring_if_asleep() {
    if (asleep_.load(std::memory_order_seq_cst)) ring();
  }
  /// Ends the present or the next sleep. From any thread.
  void ring();

  /// Wakes on any change of `fd`'s readiness, edge-triggered, until it is closed.
  Status watch(int fd);
  /// For whoever wants to wait on this waiter together with other things.
  int descriptor() const { return epoll_; }

 private:
  Waiter(int epoll, int event) : epoll_(epoll), event_(event) {}

  const int epoll_;
  const int event_;
  std::atomic<bool> asleep_{false};
};

}  // namespace ccoll
