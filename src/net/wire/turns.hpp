// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Coroutines that wait for their turn: of what is heavy, or holds something, only so much goes on
/// at once. So the time limit of each covers its own work, not that of all that began with it.

#include <asio/awaitable.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <system_error>
#include <utility>

namespace ccoll::net {

/// Used on the service thread only.
class Turns {
 public:
  explicit Turns(std::size_t at_once) : free_(at_once) {}

  /// While it lives, its holder has a turn.
  using Turn = std::shared_ptr<void>;

  /// Turns are had in the order in which they were asked for.
  static asio::awaitable<Turn> take(std::shared_ptr<Turns> turns) {
    const auto executor = co_await asio::this_coro::executor;
    const Place place(*turns, executor);
    while (!turns->is_first_with_room(place)) {
      std::error_code ignored;
      co_await place->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    turns->free_--;
    co_return Turn(turns.get(), [turns](void*) { turns->give_back(); });
  }

 private:
  /// A timer that never expires: it is cancelled.
  using Queue = std::list<asio::steady_timer>;

  /// In the queue, also of a coroutine that ends before it had a turn.
  class Place {
   public:
    Place(Turns& turns, const asio::any_io_executor& executor)
        : turns_(turns),
          at_(turns.queue_.emplace(turns.queue_.end(), executor,
                                   asio::steady_timer::time_point::max())) {}
    ~Place() {
      turns_.queue_.erase(at_);
      turns_.wake_first();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    asio::steady_timer* operator->() const { return &*at_; }
    bool is_first() const { return at_ == turns_.queue_.begin(); }

   private:
    Turns& turns_;
    const Queue::iterator at_;
  };

  bool is_first_with_room(const Place& place) const { return free_ > 0 && place.is_first(); }
  void give_back() {
    free_++;
    wake_first();
  }
  void wake_first() {
    if (free_ > 0 && !queue_.empty()) queue_.front().cancel();
  }

  std::size_t free_;
  Queue queue_;  ///< the one that has waited longest first
};

}  // namespace ccoll::net
