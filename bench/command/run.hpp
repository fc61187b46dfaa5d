// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs the measurements: joins the ranks of the environment or starts local ones, as processes or
/// as threads of this one.

#include <string>

#include "bench/command/options.hpp"

namespace ccoll::bench {

/// Whether this process reports errors of the command line: rank 0, or any process that no launcher
/// started.
bool speaks_for_all();

/// Returns the program's exit status: 0; 1 if a check or a call failed; 2 for wrong usage. `argv`
/// is for starting further ranks.
int run(const Options& options, int argc, const char* const* argv);

}  // namespace ccoll::bench
