// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a GPU has of a program of the team kernel, and of its calls' order: for whoever launches
/// it, a team of one process (team_device.hpp) or a rank of several (kernel_calls.cpp). Needs
/// CUDA's headers: only sources, and headers that only they include, do.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/kernel/team_kernel.hpp"
#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// Of what one GPU has for programs. Their blocks are numbered over all GPUs.
inline constexpr std::uint32_t kMostTeamFlags = 32768;
inline constexpr std::uint32_t kMostTeamBlocks = 2048;
/// Blocks of GPUs that have nothing to do have numbers behind the others'.
inline constexpr std::uint32_t kMostTeamProgress = kMostTeamBlocks + kMostTeamDevices;

/// So many blocks of each rank there is to be room for where they are counted (block_budget.hpp),
/// if nothing else is; and so many a group reserves that was told nothing else.
inline constexpr std::uint32_t kBlocksOfRank = 16;
/// Behind what is said of such room.
inline constexpr std::string_view kBesideOthers =
    ", with room for two calls of each of the process's teams of several GPUs, and of each of its "
    "groups of processes";

/// The kernel that a program's launches are of.
struct ProgramKernel {
  const void* function = nullptr;  ///< null where there is nothing to do
  std::size_t shared_bytes = 0;
};

/// Memory of one GPU, which is the current one in all of this, for the lists of programs. It is
/// taken some at a time, the first before any call: who takes some while kernels of others wait for
/// his own may wait for them.
class ListMemory {
 public:
  Status open() { return take_more(kPieceBytes); }
  Result<std::byte*> take(std::size_t bytes);
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kPieceBytes = 4 << 20;
  Status take_more(std::size_t bytes);

  std::vector<DeviceMemory> pieces_;
  std::byte* next_ = nullptr;  ///< in the last
  std::size_t left_ = 0;       ///< from there on
  std::uint64_t bytes_ = 0;    ///< of all
};

/// What one GPU has of a program.
struct ProgramPart {
  TeamProgram program;        ///< its lists are in that GPU's ListMemory
  std::uint32_t threads = 0;  ///< of a block
  std::uint32_t at_once = 0;  ///< blocks that the GPU runs, if it has nothing else
};

/// What programs may need.
struct ProgramRoom {
  std::uint32_t ranks = 1;                        ///< exactly
  std::uint64_t workspace_bytes = 0;              ///< of each GPU
  std::uint32_t most_threads = kMostTeamThreads;  ///< per block
  std::uint32_t most_blocks = 0;                  ///< of a GPU; 0: as many as run at once
  /// Of so many that a GPU runs if it has nothing else, those that the program may have; unless
  /// all. `beside`: what the others are for, in words.
  std::function<std::uint32_t(std::uint32_t at_once)> left = nullptr;
  std::string_view beside = "";
};

/// All of them, on that GPU, which is the current one; `unsupported` where it has no cooperative
/// launches.
Status load_team_kernels(int device);
/// `unsupported` where that is too much.
Status check_room(const LoweredTeam& lowered, const ProgramRoom& room);
Result<ProgramKernel> kernel_for(const TeamProgram& program);
/// How many blocks run at once on that GPU, which is the current one, if it has nothing else.
Result<std::uint32_t> blocks_at_once(const ProgramKernel& kernel, int device,
                                     std::uint32_t threads);
/// How many blocks of any program run at once on that GPU, which is the current one, whatever
/// shared memory they need.
Result<std::uint32_t> blocks_at_once(int device);

/// What blocks of several teams are counted as.
struct CountedBlocks {
  std::uint32_t threads = 0;  ///< of a block, at most
  std::uint32_t at_once = 0;  ///< so many of those the GPU runs, if it has nothing else
};
/// Of those of which few run at once there is less room for all: so none are larger than leave
/// room for kBlocksOfRank of `ranks` ranks on that GPU, which is the current one.
Result<CountedBlocks> counted_blocks(int device, std::uint32_t ranks, std::uint32_t most_threads);
/// Finds the most threads with which all blocks of the part have room, of those that have something
/// to do; `unsupported`: none.
/// The GPU is the current one.
Status shape(ProgramPart& part, const ProgramKernel& kernel, const ProgramRoom& room, int device);
/// Copies to the current GPU what number `number` of the program's GPUs needs of it.
Status upload(ProgramPart& part, const LoweredTeam& lowered, std::uint32_t number,
              ListMemory& memory, cudaStream_t stream);

/// By what calls have a GPU one after another: the claim and the tickets, in its memory.
class TeamTurns {
 public:
  /// On the current GPU; waits for the stream.
  static Result<TeamTurns> make(cudaStream_t stream);
  void put_in(TeamState& state) const;
  void reset() { memory_.reset(); }
  static constexpr std::uint64_t bytes() {
    return kTicketsAt + kMostTeamBlocks * sizeof(TeamTicket);
  }

 private:
  static constexpr std::size_t kTicketsAt = 128;
  static_assert(sizeof(TeamClaim) <= kTicketsAt);
  DeviceMemory memory_;
};

/// What was tried where a launch has failed, in words.
std::string launching(const ProgramPart& part, int device);

/// Where those stand that have not finished, or nothing.
std::string standing_blocks(std::span<const TeamBlock> blocks, const TeamProgress* progress);

}  // namespace ccoll::device
