// SPDX-License-Identifier: Apache-2.0
#include "net/deadline.hpp"

#include <asio/steady_timer.hpp>
#include <utility>

#include "core/deadline.hpp"

namespace ccoll::net {

struct Deadline::State {
  State(const asio::any_io_executor& executor, std::function<void()> c)
      : close(std::move(c)), timer(executor) {}
  std::function<void()> close;  // null once the Deadline is gone
  asio::steady_timer timer;
  bool expired = false;
};

Deadline::Deadline(const asio::any_io_executor& executor, std::chrono::milliseconds timeout,
                   std::function<void()> close)
    : state_(std::make_shared<State>(executor, std::move(close))) {
  state_->timer.expires_at(deadline_after(timeout));
  // A weak reference: the handler lives in the timer's own queue, and would keep the timer alive.
  state_->timer.async_wait([weak = std::weak_ptr(state_)](const std::error_code& error) {
    const auto state = weak.lock();
    if (error || !state || !state->close) return;
    state->expired = true;
    state->close();
  });
}

Deadline::~Deadline() {
  state_->close = nullptr;
  state_->timer.cancel();
}

bool Deadline::expired() const { return state_->expired; }

}  // namespace ccoll::net
