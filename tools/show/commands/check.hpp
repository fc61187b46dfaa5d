// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show simulate --check`: the simulator's times beside those of real calls on this machine, by
/// processes that share memory. The costs are those that `cc-bench tune` has kept here, or else are
/// fitted to calls of other sizes that are timed along.

#include <cstdint>
#include <string>

#include "core/result.hpp"
#include "show/commands/command.hpp"
#include "show/model/study.hpp"

namespace ccoll::show {

inline constexpr Rank kMostRanksChecked = 8;
inline constexpr std::uint64_t kMostBytesChecked = 16 << 20;

/// Ignores the network; for 2 to kMostRanksChecked ranks and up to kMostBytesChecked. Starts
/// processes: see time_calls().
Result<Output> check_simulation(const Question& question);

/// The factor, at least 1, by which `us` differs from `measured`.
double factor_off(double us, double measured);

/// "+30 %", "-50 %", "x12": a prediction compared with its measurement.
std::string error_text(double us, double measured);

}  // namespace ccoll::show
