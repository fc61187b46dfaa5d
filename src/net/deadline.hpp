// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A time limit on a coroutine's operations on one socket.

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <system_error>

namespace ccoll::net {

/// Closes `socket` if `timeout` passes before the Deadline is destroyed. It does not merely cancel:
/// an operation that begins just after the limit must fail as well. It is used only on the socket's
/// service thread and must not outlive the socket.
class Deadline {
 public:
  template <typename Socket>
  Deadline(Socket& socket, std::chrono::milliseconds timeout)
      : Deadline(socket.get_executor(), timeout, [&socket] {
          std::error_code ignored;
          socket.close(ignored);
        }) {}
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  bool expired() const;

 private:
  Deadline(const asio::any_io_executor& executor, std::chrono::milliseconds timeout,
           std::function<void()> close);

  struct State;
  std::shared_ptr<State> state_;  // shared with the timer's handler, which may run after us
};

}  // namespace ccoll::net
