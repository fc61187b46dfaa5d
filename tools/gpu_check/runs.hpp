// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What there is to run, cut so that a machine that is lent for minutes tells the most first. Knows
/// no CUDA.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::gpu_check {

/// Phases that one command runs, in at most so many seconds.
struct Run {
  std::string_view name;
  std::string_view what;
  int limit_s;
  std::vector<std::string_view>
      phases;  ///< what tells the most comes first; empty: not written yet
};

std::span<const Run> all_runs();

/// For who has such a machine for 15 minutes: what to run in which order, and what after a fix.
std::string plan();

}  // namespace ccoll::gpu_check
