// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The handlers and coroutines of one rank's control, which share its state and one clock. Each
/// keeps the state's owner alive until it is over, and hands it what it throws. Service thread
/// only.

#include <asio/awaitable.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/deadline.hpp"
#include "core/result.hpp"
#include "net/service.hpp"

namespace ccoll::control {

class Tasks {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Keeps the owner alive for as long as it is held.
    virtual std::shared_ptr<void> keep() = 0;
    /// Turns a failure inside this rank into one of everyone.
    virtual void break_down(const Failure& failure) noexcept = 0;
    /// Does that for the exception being handled.
    virtual void break_down() noexcept = 0;
  };

  Tasks(asio::io_context& context, Owner& owner, Now now)
      : context_(context), owner_(owner), now_(now) {}

  asio::io_context& context() const { return context_; }
  /// The time by which the rank decides. Timers run by the Clock itself.
  Clock::time_point now() const { return now_(); }
  /// A coroutine holds it: its own objects may refer to the owner's.
  std::shared_ptr<void> keep() const { return owner_.keep(); }

  template <typename Action>
  void post(Action action) const {
    asio::post(context_, handler(std::move(action)));
  }
  /// Runs `action` at `timer`'s time, unless the timer is cancelled or set anew.
  template <typename Action>
  void await(asio::steady_timer& timer, Action action) const {
    timer.async_wait(handler(std::move(action)));
  }
  /// As net::spawn; without `failed`, the owner breaks down.
  void spawn(asio::awaitable<void> task, const std::string& what) const {
    spawn(std::move(task), what,
          [&owner = owner_](const Failure& failure) { owner.break_down(failure); });
  }
  template <typename Failed>
  void spawn(asio::awaitable<void> task, const std::string& what, Failed failed) const {
    net::spawn(context_.get_executor(), std::move(task), what,
               [kept = keep(), failed = std::move(failed)](const Failure& failure) mutable {
                 failed(failure);
               });
  }

 private:
  template <typename Action>
  auto handler(Action action) const {
    return [kept = keep(), &owner = owner_,
            action = std::move(action)](const asio::error_code& error = {}) mutable {
      if (error) return;
      try {
        action();
      } catch (...) {
        owner.break_down();
      }
    };
  }

  asio::io_context& context_;
  Owner& owner_;
  const Now now_;
};

}  // namespace ccoll::control
