// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Operations under way: what Work points to.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/api/input_copy.hpp"
#include "comm/api/reductions.hpp"
#include "comm/api/widening.hpp"
#include "comm/progress/endings.hpp"
#include "comm/streams/stream_parts.hpp"
#include "core/result.hpp"
#include "engine/describe.hpp"
#include "engine/plan.hpp"
#include "gpu/way.hpp"

namespace ccoll {

using Clock = std::chrono::steady_clock;

/// A rank that has waited this long publishes the call in which it waits.
inline constexpr std::chrono::milliseconds kPublishAfter{50};

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
  bool sought = false;  ///< whether a cycle was sought; owner: holder of the owner flag
  LongWait long_wait = LongWait::no;  ///< owner: holder of the owner flag
  Standstill stands;                  ///< of one that has begun; owner: holder of the owner flag

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

/// Collectives run one after another.
struct CollectiveOperation final : Operation {
  std::shared_ptr<Plan> plan;  ///< uses the communicator's links
  PlanRun run;
  std::optional<Premultiplication> premultiplication;
  std::optional<Widening> widening;
  std::optional<InputCopy> input_copy;
  /// The stream step that a call in a stream waits for; its time limit starts there.
  std::shared_ptr<const device::StreamOp> gate;
  std::chrono::milliseconds timeout{0};
  std::optional<PartedRun> parts;  ///< of one that is made in parts
  bool started = false;            // owner: holder of the owner flag
  Clock::time_point publish_at;    // owner: holder of the owner flag

  /// Whether it has the number by which other ranks know it. A call that its stream holds back, and
  /// all behind it, get theirs only when they begin: a graph's calls may still come before.
  bool is_numbered = false;  // owner: holder of the owner flag

  /// Whether its stream has yet to come to it.
  bool is_held_back() const { return !started && gate && !gate->reached(); }
  /// The reason why it has not begun.
  std::string_view not_begun() const {
    return is_held_back()
               ? "not begun: its stream has not reached it"
               : "not begun: an earlier call is still under way, or waits for its stream";
  }
  /// Its label and the name of the caller's own reduction.
  std::string note() const {
    return note_of(label, run.custom ? run.custom->description.name : std::string_view{});
  }
};

/// One operation of a communicator, or those of a batch in its order.
struct Work::State {
  /// Expires with the communicator, whose end ends the operations.
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
