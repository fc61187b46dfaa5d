// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show list OP`: the cost of each algorithm of an operation by its formulas, and its source;
/// without OP, all operations.

#include <cstddef>
#include <string>

#include "show/commands/command.hpp"

namespace ccoll::show {

Action add_list(CLI::App& app);

/// Every operation with its meaning and the names of its algorithms.
std::string operations_text(std::size_t width);

}  // namespace ccoll::show
