// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Schedules in files, for people to write: a line with the call, then each rank's program in the
/// format of src/schedule/text.hpp. docs/schedule_format.md describes them.
///
///     schedule all_reduce ranks 4 count 8
///     program rank 0 of 4 blocks 4
///     …

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

struct ScheduleFile {
  Call call;  ///< its entry is null: the algorithm is the user's own
  std::vector<Program> programs;
  std::vector<StepLine> lines;
};

/// Fails with the line and the reason.
Result<ScheduleFile> parse_schedule_file(std::string_view text);
Result<ScheduleFile> read_schedule_file(const std::string& path);

/// The text that parse_schedule_file reads.
std::string schedule_text(const Call& call, const std::vector<Program>& programs);

/// The picture of the schedule; findings name lines.
Picture picture_of(ScheduleFile file);

}  // namespace ccoll::show
