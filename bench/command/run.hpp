// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Carries out the measuring: joins the ranks of the environment or starts local ones, as processes
/// or as threads of this one.

#include <string>

#include "bench/command/options.hpp"

namespace ccoll::bench {

/// Whether this process is to say what is wrong with the command line: rank 0, or any process that
/// no launcher started.
bool speaks_for_all();

/// The program's exit status: 0; 1 where a check or a call failed; 2 for wrong usage.
/// `argv` is what to start further ranks with.
int run(const Options& options, int argc, const char* const* argv);

}  // namespace ccoll::bench
