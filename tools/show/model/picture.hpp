// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything to show about one call, computed once: its programs, their rounds, the verifier's
/// report and the formulas' figures. All drawings, on a terminal or a page, use this.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "rounds/rounds.hpp"
#include "show/model/call.hpp"
#include "show/text/numbers.hpp"
#include "verify/verify.hpp"

namespace ccoll::show {

/// The line of a step in its file.
using StepLine = std::pair<StepName, std::size_t>;

struct Picture {
  Call call;
  std::vector<Program> programs;  ///< by rank
  Rounds rounds;
  Report report;                 ///< for the call as drawn: one window
  std::optional<Theory> theory;  ///< for the library's own algorithms
  std::vector<Numbers> numbers;  ///< by content
  std::vector<StepLine> lines;   ///< for a schedule from a file
  std::string broken;            ///< what was done to make it wrong, if anything
};

/// For one of the library's algorithms.
Picture picture_of(const Call& call);
/// For any schedule: a program for each rank of the call.
Picture picture_of(const Call& call, std::vector<Program> programs);

}  // namespace ccoll::show
