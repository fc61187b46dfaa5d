// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The results of `cc-show simulate`, for scripts.
///
///     {"schema": 1, "operation": "all_reduce", "type": "float32", "network": "ndr",
///      "bytes": [8, 65536],
///      "sheets": [                          // by number of ranks
///        {"ranks": 8, "nodes": 1,
///         "algorithms": [
///           {"algorithm": "ring",
///            "us": [12.5, null],            // by size; null: see "skipped"
///            "marks": ["", "~"]}],          // "+": the next even size; "~": a line continued
///         "fastest": ["tree", null],        // by size
///         "crossings": [{"before": "tree", "after": "ring", "bytes": 81920.5, "us": 20.1}],
///         "skipped": ["leaders skipped: …"]}]}

#include <string>
#include <vector>

#include "show/model/study.hpp"

namespace ccoll::show {

std::string study_json(const Question& question, const std::vector<Sheet>& sheets);

}  // namespace ccoll::show
