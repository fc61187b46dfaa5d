// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Real calls between separate processes that share memory, as users run them, and their times on
/// this machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"
#include "show/commands/command.hpp"

namespace ccoll::show {

inline constexpr const char* kTimedTransport = "shm";
/// No further call begins after this time.
inline constexpr int kMostSecondsTimed = 20;
/// The option that gives processes started by time_calls() their role.
inline constexpr const char* kAsRankOption = "--as-rank";

struct TimedCall {
  const bench::Operation* operation = nullptr;
  Algorithm algorithm = Algorithm::ring;
  std::uint64_t bytes = 0;  ///< a multiple of bench::size_unit()
  DataType type = DataType::float32;
  Rank root = 0;
  std::optional<double> median_us;  ///< of the slowest rank; none if the time was over
};

/// Starts `ranks` processes of this program, which make all the calls, and fills in their times.
/// Fails if a rank fails, which has then reported why on standard error. Call it from the thread
/// that started this process, before other threads run.
Status time_calls(Rank ranks, std::vector<TimedCall>& calls);

/// The work of such a process: rank 0 writes the times to `path`, which holds the calls.
Result<Output> time_as_rank(const std::string& path);

}  // namespace ccoll::show
