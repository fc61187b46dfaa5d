// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The errors that cc-bench's check has to find, in any kind of memory.

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "bench/measure/trial.hpp"

namespace ccoll::bench {

/// How a test writes to the buffers, in a GPU's memory or the host's.
struct TrialMemory {
  Gpu* gpu = nullptr;
  std::function<void(std::byte* data, const Segment& segment, std::span<const std::byte> period)>
      fill;
  std::function<void(std::byte* byte)> flip;  ///< inverts all bits of the byte
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
  // Before a call all its output must be wrong, except data that is already in place.
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
  // The bytes just behind and just before.
  finds(out, 1);
  auto* const in = static_cast<std::byte*>(const_cast<void*>(trial.input()));
  finds(in - 1, 1);
  if (layout.input_elems > 0) finds(in, 1);
  finds(in + layout.input_elems * 4, 1);
}

/// Tests every operation, in place and not, on each of 3 ranks.
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
