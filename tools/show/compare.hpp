// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show compare ALGORITHM...`: several algorithms of one operation on one clock, as figures and
/// as a page on which they run side by side.

#include <vector>

#include "algorithms/algorithms.hpp"
#include "schedule/rounds.hpp"
#include "show/command.hpp"

namespace ccoll::show {

Action add_compare(CLI::App& app);

/// When each round ends, in microseconds, if all ranks begin each together and it lasts until the
/// rank that sends or receives most has done so; and the links' latency longer where its messages
/// wait for others, which those that a lane sends one after another do not.
std::vector<double> round_ends_us(const Rounds& rounds, std::size_t elem_bytes,
                                  const LinkCosts& links);

}  // namespace ccoll::show
