// SPDX-License-Identifier: Apache-2.0
#pragma once

/// cc-run's report on a failed job, from the ranks' dumps and how they ended.

#include <chrono>
#include <string>
#include <vector>

#include "run/launch.hpp"

namespace ccoll {

/// Lines for standard error; none if the job ended well. Dumps older than the job are ignored.
std::vector<std::string> diagnosis(const std::string& dumps, const std::vector<RankEnd>& ends,
                                   std::chrono::system_clock::time_point started);
/// For a job that is about to be ended, whose ranks have just dumped their state; empty if nothing
/// hangs.
std::vector<std::string> diagnosis_of_running(const std::string& dumps,
                                              const std::vector<RankEnd>& running,
                                              std::chrono::system_clock::time_point started);

}  // namespace ccoll
