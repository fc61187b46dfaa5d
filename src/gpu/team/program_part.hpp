// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A GPU's part of a program of the team kernel, and the order of its calls. Both launchers use it:
/// a team of one process (team_device.hpp) and a rank of several (kernel_calls.cpp). Needs CUDA's
/// headers: only sources, and headers that only they include, include this.

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

/// The most that one GPU has for programs. Their blocks are numbered over all GPUs.
inline constexpr std::uint32_t kMostTeamFlags = 32768;
inline constexpr std::uint32_t kMostTeamBlocks = 2048;
/// Blocks of GPUs that have nothing to do are numbered behind the others.
inline constexpr std::uint32_t kMostTeamProgress = kMostTeamBlocks + kMostTeamDevices;

/// Where blocks are counted (block_budget.hpp), there must be room for so many of each rank if
/// nothing else is there. A group reserves as many if it was given no number.
inline constexpr std::uint32_t kBlocksOfRank = 16;
/// Follows the text of an error about such room.
inline constexpr std::string_view kBesideOthers =
    ", with room for two calls of each of the process's teams of several GPUs, and of each of its "
    "groups of processes";

/// The kernel that runs a program.
struct ProgramKernel {
  const void* function = nullptr;  ///< null where there is nothing to do
  std::size_t shared_bytes = 0;
};

/// Memory of one GPU, which is the current one in all of this, for the lists of programs. It is
/// allocated in pieces, the first before any call: an allocation while other ranks' kernels wait
/// for this rank's may wait for those kernels.
class ListMemory {
 public:
  Status open() { return take_more(kPieceBytes); }
  Result<std::byte*> take(std::size_t bytes);
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kPieceBytes = 4 << 20;
  Status take_more(std::size_t bytes);

  std::vector<DeviceMemory> pieces_;
  std::byte* next_ = nullptr;  ///< in the last piece
  std::size_t left_ = 0;       ///< bytes from there on
  std::uint64_t bytes_ = 0;    ///< of all pieces
};

/// One GPU's part of a program.
struct ProgramPart {
  TeamProgram program;        ///< its lists are in that GPU's ListMemory
  std::uint32_t threads = 0;  ///< of a block
  std::uint32_t at_once = 0;  ///< blocks that the GPU runs, if it has nothing else
};

/// The limits of what programs may need.
struct ProgramRoom {
  std::uint32_t ranks = 1;                        ///< exactly
  std::uint64_t workspace_bytes = 0;              ///< per GPU
  std::uint32_t most_threads = kMostTeamThreads;  ///< per block
  std::uint32_t most_blocks = 0;                  ///< per GPU; 0: as many as run at once
  /// How many blocks the program may have of the `at_once` that a GPU runs if it has nothing else;
  /// null: all. `beside`: in words, the use of the others.
  std::function<std::uint32_t(std::uint32_t at_once)> left = nullptr;
  std::string_view beside = "";
};

/// Loads all kernels on that GPU, which is the current one; `unsupported` if it has no cooperative
/// launches.
Status load_team_kernels(int device);
/// `unsupported` if the program needs more than there is.
Status check_room(const LoweredTeam& lowered, const ProgramRoom& room);
Result<ProgramKernel> kernel_for(const TeamProgram& program);
/// How many blocks run at once on that GPU, which is the current one, if it has nothing else.
Result<std::uint32_t> blocks_at_once(const ProgramKernel& kernel, int device,
                                     std::uint32_t threads);
/// How many blocks of any program run at once on that GPU, which is the current one, whatever
/// shared memory they need.
Result<std::uint32_t> blocks_at_once(int device);

/// How the blocks of several teams are counted.
struct CountedBlocks {
  std::uint32_t threads = 0;  ///< per block, at most
  std::uint32_t at_once = 0;  ///< how many of those the GPU runs if it has nothing else
};
/// If few blocks of a size run at once, they leave less room for all. So it chooses a size that
/// leaves room for kBlocksOfRank of `ranks` ranks on that GPU, which is the current one.
Result<CountedBlocks> counted_blocks(int device, std::uint32_t ranks, std::uint32_t most_threads);
/// Finds the most threads, of those that have work, with which all blocks of the part have room;
/// `unsupported` if there are none. The GPU is the current one.
Status shape(ProgramPart& part, const ProgramKernel& kernel, const ProgramRoom& room, int device);
/// Copies to the current GPU what the program's GPU number `number` needs of it.
Status upload(ProgramPart& part, const LoweredTeam& lowered, std::uint32_t number,
              ListMemory& memory, cudaStream_t stream);

/// Lets calls take turns on a GPU: the claim and the tickets, in its memory.
class TeamTurns {
 public:
  /// Uses the current GPU; waits for the stream.
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

/// Describes a launch, for the error if it fails.
std::string launching(const ProgramPart& part, int device);

/// Where the blocks stand that have not finished; empty if all have.
std::string standing_blocks(std::span<const TeamBlock> blocks, const TeamProgress* progress);

}  // namespace ccoll::device
