// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show trace DIR`: shows what the ranks of a real run recorded with CCOLL_TRACE.

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_trace(CLI::App& app);

}  // namespace ccoll::show
