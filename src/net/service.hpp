// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The one service thread of a process: accepts, handshakes, control messages, and operations that
/// nobody waits for. Asleep unless needed.

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/result.hpp"

namespace ccoll::net {

/// How long whoever ends something waits for a service thread that is held.
inline constexpr std::chrono::milliseconds kHeldLimit{900};

class Service {
 public:
  /// The process's service, started by the first user and ended with the last, or at exit.
  static std::shared_ptr<Service> shared();
  /// One of its own thread (a store server that must not share a core's turn with anything).
  static std::shared_ptr<Service> dedicated();

  /// Ends the thread; what was still pending is destroyed without being called. The last reference
  /// may also be dropped on the service thread, which then ends after the handler under way, and so
  /// does one that is held (catch_up); who posts to the context holds a reference until that has
  /// returned. A coroutine that waits for long must not hold a reference, or it would keep its
  /// thread alive.
  virtual ~Service() = default;
  virtual asio::io_context& context() = 0;
  /// Waits until what was posted before has run. False when the thread is held, by a function of
  /// the caller's or a file system that hangs, and has not got that far within kHeldLimit; and then
  /// at once, until it has: whoever takes down many things waits once. So what is posted must not
  /// refer to what may be gone then. On the service thread, and in a forked child, it waits for
  /// nothing.
  virtual bool catch_up() = 0;
  /// True on the service thread; and everywhere once has_ended(), when nobody else runs there.
  virtual bool on_service_thread() const = 0;
  /// The process's exit has ended the thread although someone still holds the Service, as an object
  /// does that is destroyed later: a global one, say. What is posted from then on never runs.
  virtual bool has_ended() const = 0;
  /// True in a child that fork() made of the Service's process. The thread is not there, its locks
  /// may be held for ever, and the sockets are the parent's too: whoever holds something of the
  /// Service there leaves it as it is.
  virtual bool is_forked() const = 0;
};

/// Runs `task` there. What it throws ends the task alone: `failed` is told, on the same thread, and
/// makes it a failure of whom the task was for. Without `failed` it is logged, as "WHAT: REASON".
void spawn(const asio::any_io_executor& where, asio::awaitable<void> task, std::string what,
           std::function<void(const Failure&)> failed = {});

/// How many connections may wait for something (their hello, their link to be opened): a quarter of
/// the descriptors that this process may have.
std::size_t waiting_connections();

}  // namespace ccoll::net
