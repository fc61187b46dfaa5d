// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A function that the service thread calls until any thread silences it.

#include <condition_variable>
#include <functional>
#include <memory>
#include <utility>

#include "core/deadline.hpp"
#include "net/service.hpp"
#include "system/locks.hpp"

namespace ccoll::net {

template <typename... Args>
class Silenceable {
 public:
  using Function = std::function<void(Args...)>;

  explicit Silenceable(Function function)
      : state_(State{std::make_shared<const Function>(std::move(function))}) {}

  /// Calls the function on the service thread. Does nothing once silence() has been called.
  void call(Args... args) {
    // A copy is kept here: the call itself may silence the function and so destroy its parts.
    std::shared_ptr<const Function> function;
    {
      const auto state = state_.lock();
      function = state->function;
      state->runs = function != nullptr;
    }
    if (!function) return;
    const Run run{*this};
    (*function)(std::forward<Args>(args)...);
  }

  /// Stops calls: none begins after this, and none runs when it returns. It waits for a running
  /// call, up to kHeldLimit, but not on the service thread. Not to be called in a forked child.
  void silence(const Service& service) {
    auto state = state_.lock();
    const auto last = std::exchange(state->function, nullptr);
    if (!service.on_service_thread())
      state.wait_until(quiet_, Clock::now() + kHeldLimit,
                       [](const State& shared) { return !shared.runs; });
    state.unlock();  // before the function is destroyed, with all that it holds
  }

 private:
  struct Run {
    Silenceable& of;
    ~Run() {
      const auto state = of.state_.lock();
      state->runs = false;
      of.quiet_.notify_all();
    }
  };

  struct State {
    std::shared_ptr<const Function> function;  ///< null: silent
    bool runs = false;
  };
  Guarded<State> state_;
  std::condition_variable quiet_;  ///< no call runs
};

}  // namespace ccoll::net
