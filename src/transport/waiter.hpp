// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The one place where a rank sleeps: an epoll set of its sockets and the eventfd of its bell,
/// which its peers and the service thread ring.

#include <chrono>
#include <memory>

#include "core/file_descriptor.hpp"
#include "core/result.hpp"
#include "transport/bell.hpp"

namespace ccoll {

class Waiter {
 public:
  static Result<std::shared_ptr<Waiter>> make();

  /// Announces the sleep. What is looked at after this call and before sleep() cannot change
  /// without ending the sleep: a peer's store of its news comes either before that look or before
  /// its ring_if_asleep, which then sees the announcement. Both are seq_cst, as is the look
  /// (transport/sleep_word.hpp).
  void prepare() { bell_->set_asleep(); }
  /// Until something happens or `limit` has passed.
  void sleep(std::chrono::nanoseconds limit);
  /// Whether a sleep is announced: by the last who held the owner flag and has not taken it back.
  bool announced() const { return bell_->asleep(); }
  /// Takes the announcement back.
  void awake() { bell_->set_awake(); }

  /// By a peer that shares memory, after the seq_cst store that publishes its news.
  void ring_if_asleep() { bell_->ring_if_asleep(); }
  /// Ends the present or the next sleep. From any thread.
  void ring() { bell_->ring(); }
  /// To be rung by peers in other processes.
  const std::shared_ptr<Bell>& bell() const { return bell_; }

  /// Wakes on any change of `fd`'s readiness, edge-triggered, until it is closed.
  Status watch(int fd);
  /// For whoever wants to wait on this waiter together with other things.
  int descriptor() const { return epoll_.number(); }

 private:
  Waiter(FileDescriptor epoll, std::shared_ptr<Bell> bell)
      : epoll_(std::move(epoll)), bell_(std::move(bell)) {}
  Status add(int fd, std::uint32_t events);

  const FileDescriptor epoll_;
  const std::shared_ptr<Bell> bell_;
};

}  // namespace ccoll
