// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Hands the connection of a link from the service thread, which makes or accepts it, to the link
/// that will own it.

#include <atomic>
#include <optional>
#include <utility>

#include "core/result.hpp"

namespace ccoll {

template <typename T>
class Delivery {
 public:
  /// On the service thread, once: the connection of the link, or why there is none.
  void deliver(T thing) { deliver(State::there, thing_, std::move(thing)); }
  void deliver(Failure failure) { deliver(State::failed, failure_, std::move(failure)); }

  /// By the link, cheap while nothing is there: moves the connection out, once.
  std::optional<T> take() {
    if (state_.load(std::memory_order_acquire) != State::there) return std::nullopt;
    state_.store(State::taken, std::memory_order_relaxed);
    return std::exchange(thing_, std::nullopt);
  }
  /// Whether take() would return it.
  bool there() const { return state_.load(std::memory_order_acquire) == State::there; }
  const Failure* failure() const {
    return state_.load(std::memory_order_acquire) == State::failed ? &*failure_ : nullptr;
  }

 private:
  enum class State : std::uint8_t { awaited, there, taken, failed };

  template <typename U>
  void deliver(State state, std::optional<U>& place, U value) {
    place = std::move(value);
    state_.store(state, std::memory_order_release);
  }

  std::optional<T> thing_;          // published by state_
  std::optional<Failure> failure_;  // published by state_
  std::atomic<State> state_{State::awaited};
};

}  // namespace ccoll
