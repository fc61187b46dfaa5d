// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The one service thread of a process: it accepts connections, shakes hands, and runs control
/// messages and operations that nobody waits for. It sleeps unless needed.

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

/// How long a destructor waits for a service thread that is held.
inline constexpr std::chrono::milliseconds kHeldLimit{900};

class Service {
 public:
  /// The process's service, started by the first user and ended with the last, or at exit.
  static std::shared_ptr<Service> shared();
  /// A service with its own thread (for a store server that must not share a core's turn).
  static std::shared_ptr<Service> dedicated();

  /// Ends the thread; pending functions are destroyed and never called. The last reference may be
  /// dropped on the service thread, which then ends after the handler in progress; a held thread
  /// (catch_up) does so too. A caller that posts to the context holds a reference until that has
  /// returned. A coroutine with a long wait must not hold one, or it would keep its thread alive.
  virtual ~Service() = default;
  virtual asio::io_context& context() = 0;
  /// Waits until all that was posted before has run. Returns false if the thread is held, by a
  /// user's function or a file system that hangs, for kHeldLimit. Until it has caught up, later
  /// calls return false at once: a caller that takes down many things waits once. So posted
  /// functions must not refer to objects that may be gone by then. It does not wait on the service
  /// thread, nor in a forked child.
  virtual bool catch_up() = 0;
  /// True on the service thread. Also true everywhere after has_ended(), when nothing runs there.
  virtual bool on_service_thread() const = 0;
  /// True if the process's exit has ended the thread although an object still holds the Service,
  /// such as a global that is destroyed later. Functions that are posted from then on never run.
  virtual bool has_ended() const = 0;
  /// True in a child that fork() made of the Service's process. There the thread is missing, its
  /// locks may be held for ever, and the sockets are the parent's too. Objects that hold parts of
  /// the Service leave them untouched there.
  virtual bool is_forked() const = 0;
};

/// Runs `task` on `where`. An exception ends the task alone: `failed` gets it on the same thread,
/// and passes it on to what the task is for. Without `failed` it is logged, as "WHAT: REASON".
void spawn(const asio::any_io_executor& where, asio::awaitable<void> task, std::string what,
           std::function<void(const Failure&)> failed = {});

/// Limit on connections that may wait (for their hello, or for their link to be opened): a quarter
/// of the process's limit on descriptors, at least 64 and at most 16384.
std::size_t waiting_connections();

}  // namespace ccoll::net
