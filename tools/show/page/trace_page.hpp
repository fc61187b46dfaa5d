// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A traced call as the page of its algorithm (page.hpp); beside "runs" its document has
///
///     "measured": {
///       "heading": "call 17 of communicator world: all_reduce of 1M bytes by ring, …",
///       "ranks": [{"rank": 0, "began": "0.00 ns", "ended": "5.1 ms"}],     // ended: or "never"
///       "rounds": [                      // but for round 0: what is sent and received in it
///         {"round": 1, "ended": "42 us",
///          "ranks": [[STEP]]}],          // by rank
///       "waits": ["rank 0 for rank 2: 5.0 ms"],                            // longest first
///       "path": [{"at": "5.0 ms", "round": 1, "text": "rank 2: input[2] -> send 3; …",
///                 "travel": "1 us", "work": "3 us"}],
///       "left_out": 0,                   // pieces of the path
///       "notes": ["…"]}
///
/// STEP is {"lane", "step", "text": "recv 1 + input[0] -> send 2", "ended": "12 us", "worked": "3
/// us", "waited": "9 us", "for": 1, "long": true, "critical": false}, summed over all windows and
/// copies of the lane. "for" is the rank that it waited for longest, or null; "long" means that
/// this was at least a tenth of the call.

#include <string>

#include "show/model/traced_job.hpp"

namespace ccoll::show {

/// Writes it; returns a sentence about the file.
Result<std::string> write_trace_page(const std::string& path, const TracedGroup& group,
                                     const TracedCall& call);

}  // namespace ccoll::show
