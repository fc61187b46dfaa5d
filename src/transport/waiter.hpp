// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's threads sleep here until peers or the service thread ring its bell, or
/// something happens at its sockets. It has descriptors of its own only if it watches sockets.
///
/// Any thread may ring it, ask whether a sleep is announced, and have it watch a socket. All else
/// is for one thread at a time, the user of the communicator's links (transport/link.hpp).

#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"
#include "transport/chime.hpp"
#include "transport/doorbell.hpp"

namespace ccoll {

class Waiter {
 public:
  /// Makes a chime of its own.
  static Result<std::shared_ptr<Waiter>> make();
  static Result<std::shared_ptr<Waiter>> make(std::shared_ptr<Chime> chime);

  /// Announces the sleep. A change to anything checked between this call and sleep() ends the
  /// sleep. A peer stores its news either before the check or before its ring_if_asleep, which then
  /// sees the announcement. The stores and the check are seq_cst (transport/sleep_word.hpp).
  void prepare() { doorbell_->set_asleep(); }
  /// Sleeps until something happens or `limit` has passed.
  void sleep(std::chrono::nanoseconds limit);
  /// Whether a sleep is announced and not taken back. Thread-safe.
  bool announced() const { return doorbell_->asleep(); }
  /// Takes the announcement back.
  void awake() { doorbell_->set_awake(); }

  /// For a peer that shares memory, after the seq_cst store that publishes its news.
  void ring_if_asleep() { doorbell_->ring_if_asleep(); }
  /// Ends the present or the next sleep. Thread-safe.
  void ring() { doorbell_->ring(); }
  /// For peers in other processes to ring.
  const std::shared_ptr<Doorbell>& doorbell() const { return doorbell_; }

  /// Wakes on any change of `fd`'s readiness, edge-triggered, until it is closed. Thread-safe.
  Status watch(int fd);

  /// For sleeps by other means than sleep(), such as Asio's: a descriptor that becomes readable
  /// when something happens, until sleep() is called. rung() reports earlier events. It is -1 if no
  /// descriptor is available; then nap for kNap instead.
  class Place {
   public:
    Place() = default;
    int descriptor() const { return lease_.descriptor() >= 0 ? lease_.descriptor() : sockets_; }

   private:
    friend Waiter;
    int sockets_ = -1;
    Chime::Lease lease_;
  };
  Place place();
  static constexpr std::chrono::milliseconds kNap{1};
  /// Whether it was rung since the last sleep ended.
  bool rung() const { return doorbell_->rings() != seen_; }

 private:
  friend class CommonSleep;
  explicit Waiter(std::shared_ptr<Doorbell> doorbell)
      : doorbell_(std::move(doorbell)), seen_(doorbell_->rings()) {}
  /// The set that sockets_ owns; -1 until watch().
  int socket_set() const { return socket_set_.load(std::memory_order_acquire); }
  bool has_sockets() const { return socket_set() >= 0; }

  const std::shared_ptr<Doorbell> doorbell_;
  Guarded<FileDescriptor> sockets_;   ///< epoll set of watched sockets and chime
  std::atomic<int> socket_set_ = -1;  ///< its number, once it is made
  std::uint32_t seen_;                ///< the bell's rings; for the links' user alone
};

/// A sleep at several waiters at once, by a thread that is the user of the links of all of them.
class CommonSleep {
 public:
  /// `waiter` must have been prepared.
  void add(Waiter& waiter);
  void sleep(std::chrono::milliseconds limit);

 private:
  std::vector<const Waiter*> waiters_;
  std::vector<const Chime*> chimes_;  ///< chimes that have a place
  std::vector<Waiter::Place> places_;
};

}  // namespace ccoll
