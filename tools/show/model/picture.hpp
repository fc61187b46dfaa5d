// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All there is to see of one call, computed once: its programs, what they do round by round, the
/// verifier's report and the formulas' figures. Whatever is drawn, on a terminal or a page, is
/// drawn from this.

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

/// In which line of its file a step stands.
using StepLine = std::pair<StepName, std::size_t>;

struct Picture {
  Call call;
  std::vector<Program> programs;  ///< by rank
  Rounds rounds;
  Report report;                 ///< of the call as it is drawn: one window
  std::optional<Theory> theory;  ///< of the library's own algorithms
  std::vector<Numbers> numbers;  ///< by content
  std::vector<StepLine> lines;   ///< of a schedule from a file
  std::string broken;            ///< what has been done to make it wrong, if anything
};

/// Of one of the library's algorithms.
Picture picture_of(const Call& call);
/// Of any schedule: a program for each rank of the call.
Picture picture_of(const Call& call, std::vector<Program> programs);

}  // namespace ccoll::show
