// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of one process: the state that their calls share, and the launch of a cooperative
/// kernel on each of their GPUs, for all ranks that have it. Knows CUDA's streams by name only;
/// only in builds with CUDA.
///
/// A call is launched on streams of the team, behind what each rank's stream held. What comes later
/// in any of these streams comes after the whole call. So calls follow one another. If the streams
/// are being captured, the launches become nodes of their graph. A graph must not run at the same
/// time as another graph or a plain call of this team: kernels that find each other end both, and
/// the team.
///
/// If a call is no more than copies (copies.hpp), and large enough, copies replace the kernels.
/// They cannot be ended midway: those that were launched before an abort are made after it, too.
///
/// Kernels of several GPUs read and write each other's memory: the team's slots and flags, and what
/// ranks lend of their buffers. Buffers that some GPU does not reach are neither lent nor copied
/// (peers.hpp).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "gpu/kernel/team_kernel.hpp"
#include "gpu/program/lower.hpp"
#include "gpu/team/meeting.hpp"

namespace ccoll::device {

struct TeamOptions {
  std::uint32_t ranks = 1;  ///< at most kMostTeamRanks
  int device = 0;
  /// Per GPU, for the slots and scratch of programs, which share it.
  std::uint64_t workspace_bytes = 32 << 20;
  std::uint32_t most_threads = kMostTeamThreads;  ///< per block; a multiple of 32
  /// By rank, if they have several GPUs, at most kMostTeamDevices; empty: all have `device`.
  std::vector<int> devices = {};
  /// The most multiprocessors of a GPU that a call uses. 0: as many as run at once.
  std::uint32_t most_blocks = 0;
  CopyUse copies = CopyUse::by_size;
};

/// Any thread may call. Must outlive its calls and the graphs that they were captured in.
class Team {
 public:
  using TimePoint = TeamMeeting::TimePoint;

  /// Takes the memory and loads the kernels, so that the first call, which may be captured, need
  /// not. `unsupported` if a GPU has no cooperative launches, or does not reach another's memory,
  /// which is tried out.
  static Result<std::unique_ptr<Team>> make(const TeamOptions& options);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  /// Waits for the calls that have been launched.
  ~Team();

  /// By rank, the number of its GPU among the team's: programs are lowered for these.
  const std::vector<std::uint32_t>& device_numbers() const;
  /// Memory of a rank's GPU, in bytes; any thread may call.
  std::uint64_t held_bytes(std::uint32_t rank) const;

  /// Copies a program to the devices, where it stays as long as the team. May be called during a
  /// capture. `unsupported` if it needs more blocks at once than a GPU runs or the options allow,
  /// or more memory than the team has; the message says how much.
  Result<const LoadedProgram*> load(const LoweredTeam& lowered);
  /// Loads a program lowered for buffers that are in place on no rank, and one for buffers in place
  /// on every rank, which serves if any are. `lending_nothing`, which must be right for both,
  /// serves if the chosen program reads other GPUs' buffers and not all are reached. Without it,
  /// those must be memory of cudaMalloc.
  Result<const LoadedProgram*> load(const LoweredTeam& separate, const LoweredTeam& in_place,
                                    const LoweredTeam* lending_nothing = nullptr);

  /// Enters a rank's part of a call of all ranks, which the last to arrive launches: see
  /// TeamMeeting. It finds out `call.capture`. In-place buffers must be those that the program was
  /// lowered for, unless it was loaded for either.
  Status arrive(const TeamCall& call);
  Status leave(std::uint32_t rank, TimePoint deadline) { return meeting_->leave(rank, deadline); }
  Result<Entry> enter(std::uint32_t rank, TimePoint until) { return meeting_->enter(rank, until); }

  /// The host waits for the end of what was launched, except by graphs. At the deadline the team
  /// breaks and its kernels end. The failure says where they stood and, if they do not end, that
  /// buffers may still be written.
  Status wait(TimePoint deadline);
  /// For a graph that has ended, whose last call was of `program`: whether all blocks have
  /// finished, or all copies are made and nothing has been aborted.
  Status check(const LoadedProgram* program) const;
  /// Where the last launch stands, except by graphs; empty if it has ended.
  std::string standing() const;
  /// Why kernels have to end, for the host or for each other; empty if they need not.
  std::optional<Failure> ended() const;
  /// Ends everything with `why`.
  void abort(const Failure& why) { meeting_->abort(why); }
  /// For a team that nobody uses: leaves its blocks to others (block_budget.hpp), unless something
  /// that it has launched may still run.
  void rest();
  /// For a team that nobody uses: makes it as good as new, except that it keeps its programs. False
  /// if what it has launched has not ended, or its programs have no room.
  bool renew();

 private:
  class Device;
  explicit Team(std::unique_ptr<Device> device, std::uint32_t ranks);
  /// Whether all that it has launched has ended, on all GPUs.
  bool has_ended() const;

  const std::uint32_t ranks_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<TeamMeeting> meeting_;
};

}  // namespace ccoll::device
