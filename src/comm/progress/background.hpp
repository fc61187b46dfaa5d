// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Progress on operations that nobody waits for, made by the service thread: in short turns while
/// something moves, asleep on the communicator's waiter otherwise.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <memory>

#include "comm/progress/owner_flag.hpp"
#include "core/deadline.hpp"
#include "transport/waiter.hpp"

namespace ccoll {

class Progress;

class Background : public std::enable_shared_from_this<Background> {
 public:
  /// `waiter` and `now`: those of `progress`.
  static std::shared_ptr<Background> make(asio::io_context& context,
                                          const std::shared_ptr<Progress>& progress,
                                          std::shared_ptr<Waiter> waiter, Now now);

  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Something is under way and its communicator has no owner. From any thread.
  void schedule() noexcept;
  /// Whether it sleeps on the waiter. From any thread; one that asks after giving the owner flag
  /// back must not miss a turn that found the flag taken.
  bool sleeps() const { return sleeps_until() != kAwake; }
  /// Whether a polling thread must leave the owner flag alone for a moment: a turn has found it
  /// taken, and could find it taken again and again. From any thread.
  bool is_due() const;
  /// When it wakes at the latest, if it sleeps; else a time long past.
  std::chrono::steady_clock::time_point sleeps_until() const { return sleeps_until_.load(); }
  /// No turn begins after this; one that has begun holds the owner flag. From any thread.
  void stop();

 private:
  Background(asio::io_context& context, const std::shared_ptr<Progress>& progress,
             std::shared_ptr<Waiter> waiter, Now now);
  void turn();
  /// Whether no core is likely to be idle, except that of a caller that does not wait.
  bool is_beside_busy_cores() const;
  /// Sets whether it has something under way; the process counts those that have.
  void set_busy(bool busy);
  /// True if it is to go on at once.
  bool turn(Owned owned, Progress& progress);
  /// False if something has happened already.
  bool sleep_until(Clock::time_point next, Clock::time_point now);
  void stop_watching();

  asio::io_context& context_;  ///< of the service, which the communicator holds
  const std::weak_ptr<Progress> progress_;
  const Now now_;
  std::atomic<bool> scheduled_{false};
  std::atomic<bool> busy_{false};
  static constexpr auto kAwake = std::chrono::steady_clock::time_point::min();
  static constexpr auto kNever = std::chrono::steady_clock::time_point::min();
  /// When a turn last found the flag taken; kNever once a turn has had it. is_due() compares.
  std::atomic<std::chrono::steady_clock::time_point> denied_{kNever};
  std::atomic<std::chrono::steady_clock::time_point> sleeps_until_{kAwake};
  // owner: service thread
  const std::shared_ptr<Waiter> waiter_;
  Waiter::Place place_;                   ///< from falling asleep until the next turn
  asio::posix::stream_descriptor watch_;  ///< of the place
  asio::steady_timer timer_;
  bool stopped_ = false;
};

}  // namespace ccoll
