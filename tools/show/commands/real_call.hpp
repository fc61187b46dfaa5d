// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show call`: really runs an operation on ranks that are threads of this process, and shows
/// every rank's buffers before and after it.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_real_call(CLI::App& app);

}  // namespace ccoll::show
