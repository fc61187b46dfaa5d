// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What an executor records of a run.

#include <cstdint>

#include "schedule/problem.hpp"

namespace ccoll {

/// A step that an executor carried out for one window.
struct StepRecord {
  Rank rank = 0;
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  std::uint64_t window = 0;
  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

}  // namespace ccoll
