// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show list OP`: what each algorithm of an operation costs, from its formulas, and where it
/// comes from; without OP which there are.

#include <cstddef>
#include <string>

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_list(CLI::App& app);

/// Every operation with its meaning and the names of its algorithms.
std::string operations_text(std::size_t width);

}  // namespace ccoll::show
