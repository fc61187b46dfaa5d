// SPDX-License-Identifier: Apache-2.0
#include "core/net/deadline.hpp"

namespace ccoll::net {

struct Deadline::State {
  State(asio::ip::tcp::socket& s) : socket(&s), timer(s.get_executor()) {}
  asio::ip::tcp::socket* socket;  // null once the Deadline is gone
  asio::steady_timer timer;
  bool expired = false;
};

Deadline::Deadline(asio::ip::tcp::socket& socket, std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>(socket)) {
  state_->timer.expires_after(timeout);
  // A weak reference: the handler lives in the timer's own queue, and would keep the timer alive.
  state_->timer.async_wait([weak = std::weak_ptr(state_)](const std::error_code& error) {
    const auto state = weak.lock();
    if (error || !state || state->socket == nullptr) return;
    state->expired = true;
    std::error_code ignored;
    state->socket->close(ignored);
  });
}

Deadline::~Deadline() {
  state_->socket = nullptr;
  state_->timer.cancel();
}

bool Deadline::expired() const { return state_->expired; }

}  // namespace ccoll::net
