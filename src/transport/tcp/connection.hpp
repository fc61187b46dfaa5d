// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A TCP stream on its way from the service thread, which connects or accepts it, to the link that
/// will own it.

#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "core/result.hpp"
#include "transport/waiter.hpp"

namespace ccoll::tcp {

class Connection {
 public:
  ~Connection() {
    if (const int fd = fd_.load(); fd >= 0) close(fd);
  }

  /// On the service thread, once: the stream, or why there is none.
  void deliver(int fd) { fd_.store(fd, std::memory_order_release); }
  void deliver(Failure failure) {
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }

  /// By the link: the stream, which then is its own, or -1.
  int take() { return fd_.load(std::memory_order_relaxed) < 0 ? -1 : fd_.exchange(-1); }
  const Failure* failure() const {
    return failed_.load(std::memory_order_acquire) ? &failure_ : nullptr;
  }

 private:
  std::atomic<int> fd_{-1};
  Failure failure_;  // published by failed_
  std::atomic<bool> failed_{false};
};

}  // namespace ccoll::tcp
