// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-bench's check has to find, wherever the buffers are.

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "bench/measure/trial.hpp"

namespace ccoll::bench {

/// How a test writes to the buffers: the memory of a GPU, or of the host.
struct TrialMemory {
  Gpu* gpu = nullptr;
  std::function<void(std::byte* data, const Segment& segment, std::span<const std::byte> period)>
      fill;
  std::function<void(std::byte* byte)> flip;  ///< all its bits
};

inline void check_trial(const Operation& operation, const Shape& shape, bool in_place,
                        const TrialMemory& memory) {
  Patterns patterns({DataType::float32, ReduceOp::sum, shape.size});
  Trial trial(operation, shape, in_place && operation.has_in_place, shape.rank == 1, patterns,
              memory.gpu);
  const Layout layout = operation.layout(shape);
  trial.arm();
  auto* out = static_cast<std::byte*>(trial.output());
  const auto finds = [&](std::byte* byte, std::uint64_t wrong) {
    memory.flip(byte);
    CHECK(trial.count_wrong_elems() == wrong);
    memory.flip(byte);
    CHECK(trial.count_wrong_elems() == 0);
  };
  // Before a call everything that it must write is wrong, except what is in place already.
  if (!layout.result.empty()) {
    if (operation.name != "broadcast" && !trial.is_shared())
      CHECK(trial.count_wrong_elems() == layout.output_elems);
    for (const Segment& segment : layout.result) {
      memory.fill(out, segment,
                  segment.source == Segment::kReduced ? patterns.reduced()
                                                      : patterns.input(segment.source));
      out += segment.elems * 4;
    }
  } else {
    out += layout.output_elems * 4;
  }
  CHECK(trial.count_wrong_elems() == 0);
  if (layout.output_elems > 0) finds(out - 1, 1);
  if (trial.is_shared()) return;
  // Just behind, and just before.
  finds(out, 1);
  auto* const in = static_cast<std::byte*>(const_cast<void*>(trial.input()));
  finds(in - 1, 1);
  if (layout.input_elems > 0) finds(in, 1);
  finds(in + layout.input_elems * 4, 1);
}

/// Of every operation, in place and not, on each of 3 ranks.
inline void check_trials(const TrialMemory& memory) {
  for (const Operation& operation : operations()) {
    if (!operation.has_data) continue;
    for (const bool in_place : {false, true}) {
      for (int rank = 0; rank < 3; rank++) {
        CAPTURE(operation.name, in_place, rank);
        check_trial(operation, {3, rank, 1, 2000}, in_place, memory);
        if (memory.gpu != nullptr) memory.gpu->free_unused();
      }
    }
  }
}

}  // namespace ccoll::bench
