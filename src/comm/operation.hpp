// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Operations under way: what Work points to.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/reductions.hpp"
#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

using Clock = std::chrono::steady_clock;

/// A rank that has waited so long publishes what it waits in.
inline constexpr std::chrono::milliseconds kPublishAfter{50};

/// Since when an operation stands where it stands, as who looks at it now and then can know.
struct Standstill {
  std::uint64_t place = 0;  ///< another one after each move
  std::optional<Clock::time_point> since;

  void look(std::uint64_t place_now, Clock::time_point now) {
    if (since && place == place_now) return;
    place = place_now;
    since = now;
  }
  Clock::duration until(Clock::time_point now) const { return now - since.value_or(now); }
};

struct Operation {
  Clock::time_point begun;
  Clock::time_point deadline;
  std::string label;  ///< the caller's
  bool is_message = false;
  bool sought = false;  ///< whether it was looked for a cycle; owner: holder of the owner flag
  Standstill stands;    ///< of one that has begun; owner: holder of the owner flag

  /// Publishes what follows.
  std::atomic<bool> done{false};
  std::optional<Failure> failure;    ///< as its caller is told
  std::optional<Received> received;  ///< of receives and probes
};

/// Collectives run one after another.
struct CollectiveOperation final : Operation {
  std::shared_ptr<Plan> plan;  ///< uses the communicator's links
  PlanRun run;
  std::optional<Premultiplication> premultiplication;
  bool started = false;          // owner: holder of the owner flag
  Clock::time_point publish_at;  // owner: holder of the owner flag
};

/// One operation of a communicator, or those of a batch in its order.
struct Work::State {
  /// Gone with the communicator, whose end ends the operations.
  std::weak_ptr<Communicator::Implementation> communicator;
  std::vector<std::shared_ptr<Operation>> operations;

  const Failure* failure() const {
    for (const auto& operation : operations)
      if (operation->done.load(std::memory_order_acquire) && operation->failure)
        return &*operation->failure;
    return nullptr;
  }
  bool done() const {
    for (const auto& operation : operations)
      if (!operation->done.load(std::memory_order_acquire)) return false;
    return true;
  }
};

}  // namespace ccoll
