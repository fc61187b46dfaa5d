// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A collective under way.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/collectives/input_copy.hpp"
#include "comm/collectives/premultiplication.hpp"
#include "comm/collectives/widening.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/streams/stream_parts.hpp"
#include "engine/describe.hpp"
#include "engine/plan.hpp"
#include "gpu/way.hpp"

namespace ccoll {

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
  /// When other ranks are told of it next.
  OwnersOnly<Clock::time_point> publish_at;

  // The holder of the owner flag alone reaches these, by Collectives.
  bool started = false;
  /// Whether it has the number by which other ranks know it. A call that its stream holds back, and
  /// all behind it, get theirs only when they begin: a graph's calls may still come before.
  bool is_numbered = false;

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

}  // namespace ccoll
