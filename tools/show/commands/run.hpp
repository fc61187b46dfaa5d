// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show run FILE`: a schedule that somebody has written, proven and drawn like those of the
/// library.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_run(CLI::App& app);

}  // namespace ccoll::show
