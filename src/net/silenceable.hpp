// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A function that the service thread calls until any thread silences it.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "net/service.hpp"

namespace ccoll::net {

template <typename... Args>
class Silenceable {
 public:
  using Function = std::function<void(Args...)>;

  explicit Silenceable(Function function)
      : function_(std::make_shared<const Function>(std::move(function))) {}

  /// Calls the function on the service thread. Does nothing once silence() has been called.
  void call(Args... args) {
    // A copy is kept here: the call itself may silence the function and so destroy its parts.
    std::shared_ptr<const Function> function;
    {
      const std::lock_guard lock(mutex_);
      function = function_;
      runs_ = function != nullptr;
    }
    if (!function) return;
    const Run run{*this};
    (*function)(std::forward<Args>(args)...);
  }

  /// Stops calls: none begins after this, and none runs when it returns. It waits for a running
  /// call, up to kHeldLimit, but not on the service thread. Not to be called in a forked child.
  void silence(const Service& service) {
    std::unique_lock lock(mutex_);
    const auto last = std::exchange(function_, nullptr);
    if (!service.on_service_thread()) quiet_.wait_for(lock, kHeldLimit, [this] { return !runs_; });
    lock.unlock();  // before the function is destroyed, with all that it holds
  }

 private:
  struct Run {
    Silenceable& of;
    ~Run() {
      const std::lock_guard lock(of.mutex_);
      of.runs_ = false;
      of.quiet_.notify_all();
    }
  };

  std::mutex mutex_;
  std::condition_variable quiet_;
  std::shared_ptr<const Function> function_;  // guarded by mutex_; null: silent
  bool runs_ = false;                         // guarded by mutex_
};

}  // namespace ccoll::net
