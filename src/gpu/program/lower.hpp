// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Turns a schedule into the team kernel's program: every operand becomes an offset into a numbered
/// buffer, every link a channel, every lane a block. Pure; knows no CUDA.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "gpu/program/copies.hpp"
#include "gpu/program/program.hpp"
#include "schedule/schedule.hpp"

namespace ccoll::device {

/// Slots that suffice on every link of a schedule, as the verifier proves: its `slots_needed`.
inline constexpr std::uint32_t kTeamSlots = 4;

struct LowerRequest {
  Problem problem;  ///< whole: the team is all of its ranks
  Choice choice;
  Schedule schedule;  ///< verified; `schedule(rank)` is called once for each rank
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  /// By rank, whether its input and output share memory; empty: on no rank.
  std::vector<bool> in_place;
  std::uint32_t slots = kTeamSlots;
  /// False: every slice goes through a slot, also where the schedule lends it.
  bool lends = true;
  /// By rank, the number of its device in the team, from 0 on; empty: all have one.
  std::vector<std::uint32_t> devices = {};
  /// The most bytes for which words carry all of a call's slices of a channel; 0: no words.
  std::uint64_t tiny_bytes = kTinyBytes;
};

/// Owns the lists of a program.
struct LoweredTeam {
  std::vector<TeamBlock> blocks;  ///< none where there is nothing to do
  std::vector<TeamStep> steps;
  std::vector<TeamEnd> ends;
  std::vector<TeamPart> parts;
  std::vector<TeamChannel> channels;
  std::vector<TeamCopies> copies;  ///< the same call, if it is no more than copies; by device
  TeamProgram program;             ///< its lists' pointers are null
  bool in_place = false;           ///< lowered for all ranks in place: right whichever of them are
  /// For slots and scratch, which hold nothing between calls, so that programs may share it. No
  /// device needs more.
  std::uint64_t workspace_bytes = 0;

  /// The program with its lists here; valid as long as this lives.
  TeamProgram on_host() const;
  /// The blocks for one device. If it has none, though others do, one block that takes its ticket
  /// and ends: all devices count all calls.
  std::vector<TeamBlock> blocks_of(std::uint32_t device) const;
  /// Whether a block reads in place the buffers of a rank on another device.
  bool reads_across() const;
};

/// Alignment of each slice's memory in the workspace, and of the workspace itself.
inline constexpr std::uint64_t kTeamAlignment = 128;

Result<LoweredTeam> lower(const LowerRequest& request);

}  // namespace ccoll::device
