// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of one process: what their calls share, and the launch of a cooperative kernel on each
/// of their GPUs, for all ranks that have it. Knows CUDA's streams by name only; only in builds
/// with CUDA.
///
/// A call is launched on streams of the team, behind what each rank's stream held, and what comes
/// later in any of these streams comes after all of it. So calls follow one another. Where the
/// streams are being captured the launches become nodes of their graph; a graph is then not to run
/// at the same time as another one of this team, or as a plain call of it: kernels that find each
/// other end both, and the team.
///
/// In the place of the kernels stand copies where a call is no more than that (copies.hpp) and
/// large enough. They cannot be ended midway: what has been launched by then copies also after an
/// abort.
///
/// Kernels of several GPUs read and write each other's memory: slots and flags of the team, and
/// what is lent of ranks' buffers. Buffers that not all GPUs reach are lent to none, and not copied
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
  /// Of each GPU: what programs may need for slots and scratch; they share it.
  std::uint64_t workspace_bytes = 32 << 20;
  std::uint32_t most_threads = kMostTeamThreads;  ///< per block; a multiple of 32
  /// By rank, where they have several GPUs, at most kMostTeamDevices; empty: all have `device`.
  std::vector<int> devices = {};
  /// Of a call: so many of a GPU's multiprocessors are in use at most. 0: as many as run at once.
  std::uint32_t most_blocks = 0;
  CopyUse copies = CopyUse::by_size;
};

/// Any thread may call. Must outlive its calls and the graphs that they were captured in.
class Team {
 public:
  using TimePoint = TeamMeeting::TimePoint;

  /// Takes the memory and loads the kernels: nothing of that is left for the first call, which may
  /// be captured. `unsupported` where a GPU has no cooperative launches, or one does not reach
  /// another's memory, which is tried out.
  static Result<std::unique_ptr<Team>> make(const TeamOptions& options);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  /// Waits for the calls that have been launched.
  ~Team();

  /// By rank, the number of its GPU among the team's: for whom programs are lowered.
  const std::vector<std::uint32_t>& device_numbers() const;
  /// Of memory of a rank's GPU; any thread may ask.
  std::uint64_t held_bytes(std::uint32_t rank) const;

  /// Copies a program to the devices, where it stays as long as the team. May be called while
  /// streams are captured. `unsupported` where it needs more blocks at once than a GPU runs or the
  /// options allow, or more memory than the team has; the message says how much.
  Result<const LoadedProgram*> load(const LoweredTeam& lowered);
  /// The same of a program that was lowered for buffers that are in place nowhere, and beside it
  /// for such as are in place on every rank, which serves where they are on any.
  /// `lending_nothing`, which has to be right for either, serves where the one to be called reads
  /// buffers of other GPUs and not all are reached; without it those must be memory of cudaMalloc.
  Result<const LoadedProgram*> load(const LoweredTeam& separate, const LoweredTeam& in_place,
                                    const LoweredTeam* lending_nothing = nullptr);

  /// A rank's part in a call of all of them, which the last to come launches: see TeamMeeting.
  /// `call.capture` is found out. In-place buffers must be those that the program was lowered for,
  /// unless it was loaded for either.
  Status arrive(const TeamCall& call);
  Status leave(std::uint32_t rank, TimePoint deadline) { return meeting_->leave(rank, deadline); }
  Result<Entry> enter(std::uint32_t rank, TimePoint until) { return meeting_->enter(rank, until); }

  /// The host waits for the end of what was launched, except by graphs. At the deadline the team is
  /// broken and its kernels end; the failure says where they stood, and if they do not end, that
  /// buffers may still be written.
  Status wait(TimePoint deadline);
  /// After a graph has ended whose last call was of `program`: whether all blocks have finished, or
  /// all copies are made and nothing has been aborted.
  Status check(const LoadedProgram* program) const;
  /// Where what was launched last stands, except by graphs; empty where it has ended.
  std::string standing() const;
  /// Why kernels have been told to end, where they have, also by each other.
  std::optional<Failure> ended() const;
  /// Ends everything with `why`.
  void abort(const Failure& why) { meeting_->abort(why); }
  /// Of one that nobody uses any more: its blocks are no longer in others' way (block_budget.hpp),
  /// unless something of what it has launched may still run.
  void rest();
  /// Of one that nobody uses any more: makes it as good as new, but for the programs that it has.
  /// False where what it has launched has not ended, or its programs have no room.
  bool renew();

 private:
  class Device;
  explicit Team(std::unique_ptr<Device> device, std::uint32_t ranks);
  /// All that it has launched, on all GPUs.
  bool has_ended() const;

  const std::uint32_t ranks_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<TeamMeeting> meeting_;
};

}  // namespace ccoll::device
