// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Actions on a target that any thread hands in, and one thread at a time takes out in order.

#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "system/locks.hpp"

namespace ccoll::control {

template <typename Target>
class ActionQueue {
 public:
  using Action = std::function<void(Target&)>;

  /// `post`: tells the other thread. It comes first: if memory runs out there, nothing is queued.
  /// The lock holds back that thread's turn.
  template <typename Post>
  void add(Action action, Post post) {
    const auto actions = actions_.lock();
    post();
    actions->push_back(std::move(action));
  }
  /// The oldest, if there is one.
  std::optional<Action> take() {
    const auto actions = actions_.lock();
    if (actions->empty()) return std::nullopt;
    std::optional<Action> action(std::move(actions->front()));
    actions->pop_front();
    return action;
  }

 private:
  Guarded<std::deque<Action>> actions_;
};

}  // namespace ccoll::control
