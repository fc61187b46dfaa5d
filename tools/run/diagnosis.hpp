// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-run says of a job that has failed: made of the ranks' dumps and of how they ended.

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/launch.hpp"

namespace ccoll {

/// Lines for standard error; none of a job that ended well. Dumps older than the job are not
/// looked at.
std::vector<std::string> diagnosis(const std::string& dumps, const std::vector<RankEnd>& ends,
                                   std::chrono::system_clock::time_point started);

}  // namespace ccoll
