// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The ranks of one process on one GPU: what their calls share, and the launch of one cooperative
/// kernel for all of them. Knows CUDA's streams by name only; only in builds with CUDA.
///
/// A call is launched on a stream of the team, behind what each rank's stream held, and what comes
/// later in these streams comes after it. So calls follow one another. Where the streams are being
/// captured the launch becomes a node of their graph; a graph is then not to run at the same time
/// as another one of this team, or as a plain call of it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/result.hpp"
#include "engine/device/lower.hpp"
#include "engine/device/meeting.hpp"
#include "engine/device/team_kernel.hpp"

namespace ccoll::device {

struct TeamOptions {
  std::uint32_t ranks = 1;  ///< at most kMostTeamRanks
  int device = 0;
  /// What programs may need for slots and scratch; they share it.
  std::uint64_t workspace_bytes = 32 << 20;
  std::uint32_t most_threads = kMostTeamThreads;  ///< per block; a multiple of 32
};

/// Any thread may call. Must outlive its calls and the graphs that they were captured in.
class Team {
 public:
  using TimePoint = TeamMeeting::TimePoint;

  /// Takes the memory and loads the kernels: nothing of that is left for the first call, which may
  /// be captured. `unsupported` where the GPU has no cooperative launches.
  static Result<std::unique_ptr<Team>> make(const TeamOptions& options);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  /// Waits for the calls that have been launched.
  ~Team();

  /// Copies a program to the device, where it stays as long as the team. May be called while
  /// streams are captured. `unsupported` where it needs more blocks at once than the GPU runs, or
  /// more memory than the team has; the message says how much.
  Result<const LoadedProgram*> load(const LoweredTeam& lowered);
  /// The same of a program that was lowered for buffers that are in place nowhere, and beside it
  /// for such as are in place on every rank, which serves where they are on any.
  Result<const LoadedProgram*> load(const LoweredTeam& separate, const LoweredTeam& in_place);

  /// A rank's part in a call of all of them, which the last to come launches: see TeamMeeting.
  /// `call.capture` is found out. In-place buffers must be those that the program was lowered for,
  /// unless it was loaded for either.
  Status arrive(const TeamCall& call) { return meeting_->arrive(call); }
  Status leave(std::uint32_t rank, TimePoint deadline) { return meeting_->leave(rank, deadline); }
  Result<Entry> enter(std::uint32_t rank, TimePoint until) { return meeting_->enter(rank, until); }

  /// The host waits for the end of what was launched, except by graphs. At the deadline the team is
  /// broken and its kernels end; the failure says where they stood, and if they do not end, that
  /// buffers may still be written.
  Status wait(TimePoint deadline);
  /// After a graph has ended whose last call was of `program`: whether all blocks have finished.
  Status check(const LoadedProgram* program) const;
  /// Why kernels have been told to end, where they have.
  std::optional<Failure> ended() const { return meeting_->ended(); }
  /// Ends everything with `why`.
  void abort(const Failure& why) { meeting_->abort(why); }
  /// Of one that nobody uses any more: makes it as good as new, but for the programs that it has.
  /// False where what it has launched has not ended.
  bool renew();

 private:
  class Device;
  explicit Team(std::unique_ptr<Device> device, std::uint32_t ranks);

  const std::uint32_t ranks_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<TeamMeeting> meeting_;
};

}  // namespace ccoll::device
