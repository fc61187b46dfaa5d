// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Programs as text that people read and write:
///
///     program rank 1 of 4 blocks 4          # then `stripes 2`, where it has several
///     lane 0                                # then `stripe 1`, `scratch 2..3`, where it has any
///       0: input[1] -> send 2
///       1: recv 0 + input[0] -> send 2
///       2: recv 0 + input[2] finish -> output[2], send 2 lend always
///       3: recv 0 lane 1 -> output[3] after lane 1 step 0
///
/// A step has its sources, `->`, the place where the result is stored, and the ranks it is sent to.
/// Sources are `recv RANK` (from that rank's lane of the same number, unless another is given) and
/// at most one list of local operands, joined by `+`; `nothing` stands for none. `input[2..4]` are
/// blocks 2, 3 and 4, mod the number of blocks; `input[0] & input[2]` is a list, one after the
/// other. Steps and lanes are numbered from 0. `#` begins a comment.
///
/// Names equal the enumerators'. parse(print(p)) == p for every program that parse accepts.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "schedule/schedule.hpp"

namespace ccoll {

std::string_view to_string(Buffer buffer);
std::string_view to_string(Lend lend);

/// One step without its number: "recv 0 + input[2] finish -> output[2], send 2". `lane` is the
/// number of the lane that it is part of.
std::string to_string(const Step& step, std::uint16_t lane);
std::string to_string(const Program& program);
/// All programs, with an empty line between them.
std::string to_string(std::span<const Program> programs);

/// Reads one program. Fails with invalid_argument, naming line and reason. An accepted program is
/// well formed (ranks below the size, at least one block), but not yet verified. Memory is bounded
/// by the length of the text, at most 64 MiB.
Result<Program> parse_program(std::string_view text);

/// Reads a whole schedule: one program for each rank, in order.
Result<std::vector<Program>> parse_programs(std::string_view text);

}  // namespace ccoll
