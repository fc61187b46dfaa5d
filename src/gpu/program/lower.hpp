// SPDX-License-Identifier: Apache-2.0
#pragma once

/// From a schedule to the team kernel's program: every operand an offset into a numbered buffer,
/// every link a channel, every lane a block. Pure; knows no CUDA.

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

/// What every link of a schedule is proven to do with: the verifier's `slots_needed`.
inline constexpr std::uint32_t kTeamSlots = 4;

struct LowerRequest {
  Problem problem;  ///< whole: the team is all of its ranks
  Choice choice;
  Schedule schedule;  ///< verified; `schedule(rank)` is called once for each rank
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  /// By rank, whether its input and output share memory; empty: nowhere.
  std::vector<bool> in_place;
  std::uint32_t slots = kTeamSlots;
  /// False: every slice goes through a slot, also where the schedule lends it.
  bool lends = true;
  /// By rank, the number of its device in the team, from 0 on; empty: all have one.
  std::vector<std::uint32_t> devices = {};
  /// The most that all of a call's slices of a channel have together where words carry them; 0: no
  /// words.
  std::uint64_t tiny_bytes = kTinyBytes;
};

/// Owns the lists of a program.
struct LoweredTeam {
  std::vector<TeamBlock> blocks;  ///< none where there is nothing to do
  std::vector<TeamStep> steps;
  std::vector<TeamEnd> ends;
  std::vector<TeamPart> parts;
  std::vector<TeamChannel> channels;
  std::vector<TeamCopies> copies;  ///< the same, where it is no more than copies; by device
  TeamProgram program;             ///< its lists' pointers are null
  bool in_place = false;           ///< lowered for all ranks in place: right whichever of them are
  /// Of slots and scratch, which hold nothing from one call to the next: programs may share it.
  /// Each device has some, of which none needs more.
  std::uint64_t workspace_bytes = 0;

  /// The program with the lists where they are here, as long as this lives.
  TeamProgram on_host() const;
  /// What is for one of the devices. Where that is nothing, though others have something to do, one
  /// block that takes its ticket and ends: all devices count all calls.
  std::vector<TeamBlock> blocks_of(std::uint32_t device) const;
  /// Whether a block reads buffers of a rank of another device where they lie.
  bool reads_across() const;
};

/// Where each slice's memory begins in the workspace, which itself must.
inline constexpr std::uint64_t kTeamAlignment = 128;

Result<LoweredTeam> lower(const LowerRequest& request);

}  // namespace ccoll::device
