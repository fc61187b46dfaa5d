// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Real calls between ranks that are processes of their own and share memory, as the library's
/// users have them, and how long they take here.

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
/// No further call begins after so long.
inline constexpr int kMostSecondsTimed = 20;
/// The option by which the processes that time_calls() starts know what they are.
inline constexpr const char* kAsRankOption = "--as-rank";

struct TimedCall {
  const bench::Operation* operation = nullptr;
  Algorithm algorithm = Algorithm::ring;
  std::uint64_t bytes = 0;  ///< a multiple of bench::size_unit()
  DataType type = DataType::float32;
  Rank root = 0;
  std::optional<double> median_us;  ///< of the slowest rank; none where the time was over
};

/// Starts `ranks` processes of this program, which make all the calls, and fills in how long they
/// take. Fails where a rank fails, which has then said why on standard error. To be called by the
/// thread that started this process, before others run.
Status time_calls(Rank ranks, std::vector<TimedCall>& calls);

/// What such a process does: the one of rank 0 leaves the times in `path`, where the calls stand.
Result<Output> time_as_rank(const std::string& path);

}  // namespace ccoll::show
