// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The page of `cc-show simulate -o`: for each number of ranks, curves with their crossings and a
/// table of the same figures, in one file that needs no network.

#include <string>
#include <vector>

#include "show/model/study.hpp"

namespace ccoll::show {

/// The curves of one number of ranks, with a mark where the fastest algorithm changes.
std::string study_figure(const Question& question, const Sheet& sheet);

/// "ring becomes faster than tree near 64K bytes, at 40.2 us".
std::string crossing_sentence(const Crossing& crossing);

std::string study_page(const Question& question, const std::vector<Sheet>& sheets);

}  // namespace ccoll::show
