// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Operations under way: what Work points to.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/progress/endings.hpp"
#include "comm/progress/owner_flag.hpp"
#include "core/deadline.hpp"
#include "core/result.hpp"

namespace ccoll {

class Progress;

/// Since when an operation has stood still, as seen by a thread that looks now and then.
struct Standstill {
  std::uint64_t place = 0;  ///< changes with each move
  std::optional<Clock::time_point> since;

  void look(std::uint64_t place_now, Clock::time_point now) {
    if (since && place == place_now) return;
    place = place_now;
    since = now;
  }
  Clock::duration until(Clock::time_point now) const { return now - since.value_or(now); }
};

/// The peers that a round of progress listens to.
enum class Attention : std::uint8_t {
  awaited,   ///< those that an operation waits for
  everyone,  ///< before a sleep: all that have begun to send and may wait for room
};

/// How far the report of a long wait has come.
enum class LongWait : std::uint8_t {
  no,
  asked,  ///< others were asked: the report comes soon
  logged,
};

struct Operation {
  Clock::time_point begun;
  Clock::time_point deadline;
  std::string label;  ///< the caller's
  enum class Sort : std::uint8_t { collective, message, in_stream } sort = Sort::collective;
  /// Notes of those who look at it while it waits.
  struct Watch {
    bool sought = false;  ///< whether a cycle was sought
    LongWait long_wait = LongWait::no;
    Standstill stands;  ///< of one that has begun
  };
  OwnersOnly<Watch> watch;

  /// Publishes what follows.
  std::atomic<bool> done{false};
  std::optional<Failure> failure;    ///< in the form for its caller
  std::optional<Received> received;  ///< of receives and probes
  Endings endings;

  void end() noexcept {
    done.store(true, std::memory_order_release);
    endings.tell();
  }
};

/// The Work of a call in a stream has this one in place of the operation itself.
struct StreamOperation final : Operation {
  StreamOperation() { sort = Sort::in_stream; }
};

/// One operation of a communicator, or those of a batch in its order.
struct Work::State {
  /// Moves them on. Expires with the communicator, whose end ends the operations.
  std::weak_ptr<Progress> progress;
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

/// The unfinished part of a work, for repeated questions: an operation that was found done is not
/// asked again.
class Remaining {
 public:
  explicit Remaining(const Work::State& work) : operations_(work.operations) {}

  bool none() {
    while (!operations_.empty() && operations_.front()->done.load(std::memory_order_acquire))
      operations_ = operations_.subspan(1);
    return operations_.empty();
  }

 private:
  std::span<const std::shared_ptr<Operation>> operations_;
};

}  // namespace ccoll
