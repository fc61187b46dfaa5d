// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Actions on a target that any thread hands in, and one thread at a time takes out in order.

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace ccoll::control {

template <typename Target>
class ActionQueue {
 public:
  using Action = std::function<void(Target&)>;

  /// `post`: tells the other thread. It comes first: if memory runs out there, nothing is queued.
  /// The lock holds back that thread's turn.
  template <typename Post>
  void add(Action action, Post post) {
    const std::lock_guard lock(mutex_);
    post();
    actions_.push_back(std::move(action));
  }
  /// The oldest, if there is one.
  std::optional<Action> take() {
    const std::lock_guard lock(mutex_);
    if (actions_.empty()) return std::nullopt;
    std::optional<Action> action(std::move(actions_.front()));
    actions_.pop_front();
    return action;
  }

 private:
  std::mutex mutex_;
  std::deque<Action> actions_;  // guarded by mutex_
};

}  // namespace ccoll::control
