// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-run says of a job that has failed: made of the ranks' dumps and of how they ended.

#include <chrono>
#include <string>
#include <vector>

#include "run/launch.hpp"

namespace ccoll {

/// Lines for standard error; none of a job that ended well. Dumps older than the job are not
/// looked at.
std::vector<std::string> diagnosis(const std::string& dumps, const std::vector<RankEnd>& ends,
                                   std::chrono::system_clock::time_point started);
/// Of a job that is to be ended, whose ranks have just dumped what they do; none where nothing
/// stands still.
std::vector<std::string> diagnosis_of_running(const std::string& dumps,
                                              const std::vector<RankEnd>& running,
                                              std::chrono::system_clock::time_point started);

}  // namespace ccoll
