// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show compare ALGORITHM...`: several algorithms of one operation on one clock, as figures and
/// as a page on which they run side by side.

#include <vector>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"
#include "show/commands/command.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

Action add_compare(CLI::App& app);

/// When each round ends, in microseconds of virtual time: its last message has come, and those of
/// the rounds before. A rank sends and receives at the links' bandwidth at most, with all its
/// messages together.
Result<std::vector<double>> round_ends_us(const Picture& picture, const LinkCosts& links);

}  // namespace ccoll::show
