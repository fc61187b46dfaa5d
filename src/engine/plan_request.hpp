// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parameters of a Plan and of its runs.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ccoll/reduction.hpp"
#include "ccoll/types.hpp"
#include "core/signature.hpp"
#include "engine/buffer_view.hpp"
#include "schedule/schedule.hpp"

namespace ccoll {

/// The parameters of a Plan.
struct PlanRequest {
  /// This rank's view. The sizes of ragged blocks may change between runs: programs do not depend
  /// on them.
  Problem problem;
  Choice choice;
  Program program;
  DataType type = DataType::uint8;
  /// Includes a pre-multiplied sum, whose input start() gets multiplied. None: each run brings the
  /// caller's own function.
  std::optional<ReduceOp> op = ReduceOp::sum;
  /// The bytes of this rank's buffers that caches keep. If the buffers are larger, outputs may be
  /// written past the caches.
  std::uint64_t cached_bytes = UINT64_MAX;
  /// The machine has fewer cores than ranks.
  bool oversubscribed = false;
  /// The number of the plan's first lane on the links.
  std::uint16_t first_lane = 0;
  /// If sizes are private and empty blocks are not sent: the program of its CountCheck.
  std::optional<Program> count_check;
};

/// One run of a Plan. It uses the buffers and `custom` until done() or a failure.
struct PlanRun {
  BufferView input;
  BufferView output;
  /// Whether input and output share memory.
  bool in_place = false;
  /// The blocks' sizes, if they differ from those of the plan's problem (see Problem).
  std::vector<std::uint64_t> block_counts;
  std::vector<std::uint64_t> output_counts;
  std::shared_ptr<const Reduction::Custom> custom;
  const void* custom_for = nullptr;  ///< is_folding_for() is true for it in `custom`
  Signature signature;
  std::uint64_t sequence = 0;
  /// Number of windows whose data the buffers have. While the plan rests(), this may grow, and the
  /// buffers may be exchanged for others that hold the remaining windows.
  std::uint64_t open_windows = UINT64_MAX;
};

}  // namespace ccoll
