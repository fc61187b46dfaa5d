// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The available runs, divided so that a machine lent for minutes gives the most important results
/// first. Does not depend on CUDA.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::gpu_check {

/// The phases that one command runs, within a limit in seconds.
struct Run {
  std::string_view name;
  std::string_view what;
  int limit_s;
  std::vector<std::string_view> phases;  ///< the most informative first
};

std::span<const Run> all_runs();

/// A guide for 15 minutes on such a machine: what to run in which order, and what after a fix.
std::string plan();

}  // namespace ccoll::gpu_check
