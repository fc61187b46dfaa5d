// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Carries out the measuring: joins the ranks of the environment or starts local ones, as processes
/// or as threads of this one.

#include <string>

#include "options.hpp"

namespace ccoll::bench {

/// The program's exit status: 0; 1 where a check or a call failed; 2 for wrong usage.
/// `argv` is what to start further ranks with.
int run(const Options& options, int argc, const char* const* argv);

}  // namespace ccoll::bench
