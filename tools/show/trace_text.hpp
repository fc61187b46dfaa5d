// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A traced job in words: its calls, who waited for whom, and one call's critical path.

#include <string>

#include "show/traced_job.hpp"

namespace ccoll::show {

/// `how_to_ask`: a command that looks into a call, but for its number.
std::string job_text(const TracedJob& job, const std::string& how_to_ask);

std::string call_text(const TracedGroup& group, const TracedCall& call);

/// "all_reduce of 1M bytes by ring, 4 ranks".
std::string heading_of(const TracedCall& call);

}  // namespace ccoll::show
