// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show simulate OP`: the time of each algorithm on a network, at any number of ranks, in
/// virtual time, as a table and as a page.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_simulate(CLI::App& app);

}  // namespace ccoll::show
