// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the threads of a communicator sleep: until its bell is rung, by peers and the service
/// thread, or something happens at its sockets. Descriptors of its own it has only for those.

#include <poll.h>

#include <chrono>
#include <memory>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "transport/chime.hpp"
#include "transport/doorbell.hpp"

namespace ccoll {

class Waiter {
 public:
  /// With a chime of its own.
  static Result<std::shared_ptr<Waiter>> make();
  static Result<std::shared_ptr<Waiter>> make(std::shared_ptr<Chime> chime);

  /// Announces the sleep. What is looked at after this call and before sleep() cannot change
  /// without ending the sleep: a peer's store of its news comes either before that look or before
  /// its ring_if_asleep, which then sees the announcement. Both are seq_cst, as is the look
  /// (transport/sleep_word.hpp).
  void prepare() { doorbell_->set_asleep(); }
  /// Until something happens or `limit` has passed. By who holds the owner flag.
  void sleep(std::chrono::nanoseconds limit);
  /// Whether a sleep is announced: by the last who held the owner flag and has not taken it back.
  bool announced() const { return doorbell_->asleep(); }
  /// Takes the announcement back.
  void awake() { doorbell_->set_awake(); }

  /// By a peer that shares memory, after the seq_cst store that publishes its news.
  void ring_if_asleep() { doorbell_->ring_if_asleep(); }
  /// Ends the present or the next sleep. From any thread.
  void ring() { doorbell_->ring(); }
  /// To be rung by peers in other processes.
  const std::shared_ptr<Doorbell>& doorbell() const { return doorbell_; }

  /// Wakes on any change of `fd`'s readiness, edge-triggered, until it is closed. By who holds the
  /// owner flag.
  Status watch(int fd);

  /// For who sleeps by other means than sleep(), such as Asio's: a descriptor that becomes readable
  /// when something happens, until sleep() is called. What has happened before rung() tells. Where
  /// there is none to be had it is -1, and the sleep is to be a nap, of kNap.
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
  /// Whether it was rung since the last sleep has ended. By who holds the owner flag.
  bool rung() const { return doorbell_->rings() != seen_; }

 private:
  friend class CommonSleep;
  explicit Waiter(std::shared_ptr<Doorbell> doorbell)
      : doorbell_(std::move(doorbell)), seen_(doorbell_->rings()) {}
  bool has_sockets() const { return sockets_.open(); }

  const std::shared_ptr<Doorbell> doorbell_;
  // guarded by the owner flag
  FileDescriptor sockets_;  ///< the epoll set of what it watches, with its chime; none until then
  std::uint32_t seen_;      ///< the bell's rings
};

/// A sleep at several waiters at once, by who holds all their owner flags.
class CommonSleep {
 public:
  /// That has been prepared.
  void add(Waiter& waiter);
  void sleep(std::chrono::milliseconds limit);

 private:
  std::vector<const Waiter*> waiters_;
  std::vector<const Chime*> chimes_;  ///< for which there is a place
  std::vector<Waiter::Place> places_;
};

}  // namespace ccoll
