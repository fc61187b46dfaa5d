// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show run FILE`: a user's schedule, proven and drawn like the library's.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_run(CLI::App& app);

}  // namespace ccoll::show
