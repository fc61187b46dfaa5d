// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show simulate --check`: the simulator's times beside those of real calls on this machine, by
/// processes that share memory. The costs are measured here: those that `cc-bench tune` has kept,
/// or else what calls of other sizes, timed along with them, speak for.

#include <cstdint>
#include <string>

#include "core/result.hpp"
#include "show/commands/command.hpp"
#include "show/model/study.hpp"

namespace ccoll::show {

inline constexpr Rank kMostRanksChecked = 8;
inline constexpr std::uint64_t kMostBytesChecked = 16 << 20;

/// Its network is not looked at; 2 to kMostRanksChecked ranks, up to kMostBytesChecked. Starts
/// processes: see time_calls().
Result<Output> check_simulation(const Question& question);

/// How far `us` is from `measured`, as a factor of at least 1.
double factor_off(double us, double measured);

/// "+30 %", "-50 %", "x12": a prediction beside what was measured.
std::string error_text(double us, double measured);

}  // namespace ccoll::show
