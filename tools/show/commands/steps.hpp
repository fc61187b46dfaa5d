// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show steps OP`: an algorithm at work, round by round.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_steps(CLI::App& app);

}  // namespace ccoll::show
