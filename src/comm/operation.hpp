// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An operation under way: what Work points to.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/reductions.hpp"
#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

using Clock = std::chrono::steady_clock;

/// Operations of one queue run one after another; of different queues side by side.
struct QueueKey {
  enum class What : std::uint8_t { collective, send, recv } what = What::collective;
  Rank peer = 0;
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

struct Operation {
  QueueKey queue;
  Plan* plan = nullptr;  ///< the communicator's; lives as long as that
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::optional<Premultiplication> premultiplication;
  std::shared_ptr<const Reduction::Custom> custom;
  std::uint64_t sequence = 0;  ///< in its queue
  Clock::time_point begun;
  Clock::time_point deadline;
  bool started = false;    // owner: holder of the owner flag
  bool published = false;  // owner: holder of the owner flag

  /// Publishes `failure`.
  std::atomic<bool> done{false};
  std::optional<Failure> failure;
};

/// One or, for send_recv, two operations of a communicator.
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
