// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A traced job in words: its calls, its waits, and one call's critical path.

#include <string>

#include "show/model/traced_job.hpp"

namespace ccoll::show {

/// In lines of `width` columns. `how_to_ask`: the command for inspecting a call, without its
/// number.
std::string job_text(const TracedJob& job, const std::string& how_to_ask, std::size_t width);

std::string call_text(const TracedGroup& group, const TracedCall& call, std::size_t width);

/// "all_reduce of 1M bytes by ring, 4 ranks".
std::string heading_of(const TracedCall& call);

/// "42.4 us".
std::string span_text(std::uint64_t ns);

/// "had waited for rank 2": why a piece began no earlier; `before`: the previous piece's rank.
std::string cause_text(const trace::PathPiece& piece, Rank before);

}  // namespace ccoll::show
