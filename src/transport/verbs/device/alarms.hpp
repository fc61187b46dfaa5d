// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Informs the owners of queue pairs about events that end them. The service thread raises an alarm
/// and rings; the owner checks it when no completion has come.

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "system/locks.hpp"
#include "transport/waiter.hpp"

namespace ccoll::verbs {

/// A queue pair's alarm: the context of the pair and of its completion queue. Thread-safe. It must
/// live until both are destroyed, which waits for events in delivery.
class Alarm {
 public:
  /// Keeps the first event.
  void raise(ibv_event_type event) {
    int none = kNone;
    event_.compare_exchange_strong(none, event);
    waiter_.with([](const std::weak_ptr<Waiter>& weak) {
      if (const auto waiter = weak.lock()) waiter->ring();
    });
  }
  /// Sets the waiter to ring.
  void attach(std::weak_ptr<Waiter> waiter) { *waiter_.lock() = std::move(waiter); }
  std::optional<ibv_event_type> raised() const {
    const int event = event_.load(std::memory_order_acquire);
    if (event == kNone) [[likely]]
      return std::nullopt;
    return static_cast<ibv_event_type>(event);
  }

 private:
  static constexpr int kNone = -1;
  std::atomic<int> event_{kNone};
  Guarded<std::weak_ptr<Waiter>> waiter_;
};

/// A device's alarms, for events that concern all of it. Thread-safe.
class Alarms {
 public:
  void add(Alarm& alarm) { all_.lock()->insert(&alarm); }
  void remove(Alarm& alarm) { all_.lock()->erase(&alarm); }
  void raise(ibv_event_type event) {
    const auto all = all_.lock();
    for (Alarm* const alarm : *all) alarm->raise(event);
  }

 private:
  Guarded<std::set<Alarm*>> all_;
};

}  // namespace ccoll::verbs
