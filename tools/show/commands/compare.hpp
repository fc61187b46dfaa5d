// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show compare ALGORITHM...`: several algorithms of one operation on one clock, as figures and
/// as an animated page with all side by side.

#include <vector>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"
#include "show/commands/command.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

Action add_compare(CLI::App& app);

/// When each round ends, in microseconds of virtual time: once its messages and those of earlier
/// rounds have arrived. A rank sends and receives all its messages together at most at the links'
/// bandwidth.
Result<std::vector<double>> round_ends_us(const Picture& picture, const LinkCosts& links);

}  // namespace ccoll::show
