// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Coroutines that wait for their turn: only a limited number do heavy work, or hold something, at
/// once. So a time limit covers a coroutine's own work, not that of all the others.

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

  /// Its holder has a turn as long as it lives.
  using Turn = std::shared_ptr<void>;

  /// Turns come in the order of the requests.
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
  /// The timers never expire; they are cancelled.
  using Queue = std::list<asio::steady_timer>;

  /// A place in the queue. It is given up even if the coroutine ends before its turn.
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
  Queue queue_;  ///< the longest waiting one first
};

}  // namespace ccoll::net
