// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team's state on its GPUs: programs (team_programs.cpp), how calls are launched and end there
/// (team_device.cpp), and how they are copied (team_copies.cpp).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/program/block_budget.hpp"
#include "gpu/program/copies.hpp"
#include "gpu/team/program_part.hpp"
#include "gpu/team/team.hpp"
#include "kernels/device/layer.hpp"
#include "system/locks.hpp"

namespace ccoll::device {

struct LoadedProgram {
  std::vector<ProgramPart> parts;               ///< by the GPU's number in the team
  std::vector<TeamBlock> blocks;                ///< of all GPUs, for messages
  std::vector<TeamCopies> copies;               ///< the copies that make its calls, if any
  mutable std::atomic<bool> was_copied{false};  ///< a call of it was made by copies
  ProgramKernel kernel;
  const LoadedProgram* in_place = nullptr;  ///< the program for buffers in place
  /// The program if not all GPUs reach the buffers; null if it reads no buffers of others.
  const LoadedProgram* lending_nothing = nullptr;
};

/// All GPUs of the team.
class Team::Device final : public TeamDevice {
 public:
  explicit Device(const TeamOptions& options) : options_(options) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() override;

  Status open();
  Result<LoadedProgram*> load(const LoweredTeam& lowered);
  /// Whether what was launched has ended by `deadline`.
  Result<bool> ended_by(TimePoint deadline) const;
  /// Whether all GPUs have counted the same calls, and all claims on the team are given back.
  bool is_even() const { return is_even_; }
  /// Whether all its programs have room (BlockBudget). If not, none of them is counted.
  bool take_room();
  void give_room_back() { BlockBudget::of_process().give_back(this); }
  const std::vector<std::uint32_t>& numbers() const { return numbers_; }
  /// After a call's end: whether its results are complete.
  Status finished(const LoadedProgram* program) const;
  /// The blocks or copies in the last launch that have not ended, in words.
  std::string standing() const;
  const LoadedProgram* launched() const;
  /// Memory of a rank's GPU, in bytes.
  std::uint64_t held_bytes(std::uint32_t rank) const;

  Status arrive(TeamCall& call) override;
  Status launch(std::span<const TeamCall> calls, std::uint32_t last) override;
  Status leave(const TeamCall& call) override;
  void abort() override;
  /// May be called once what was launched has ended.
  void forget_abort() {
    store_relaxed(abort_word(), 0);
    store_relaxed(abort_word() + kBusyAt, 0);
  }
  /// Whether a call has found another one under way, so that both have to end.
  bool was_busy() const { return load_acquire(abort_word() + kBusyAt) != 0; }

 private:
  /// The words of tiny slices lie behind the flags.
  static constexpr std::size_t kFlagBytes =
      std::size_t{kMostTeamFlags} * kFlagWords * sizeof(std::uint64_t);
  /// Flags and words.
  static constexpr std::size_t kStateBytes = kFlagBytes + kTeamWords * sizeof(std::uint64_t);
  /// The abort word has a line of memory to itself, except for the word beside it that says why.
  static constexpr std::size_t kBusyAt = 1;
  static constexpr std::size_t kProgressAt = 128;

  /// One GPU with its resources, which are given back while it is the current one.
  struct Gpu {
    int device = 0;
    OwnStream launches, uploads;
    /// One for each capture under way, except for launches in a rank's own stream.
    std::vector<OwnStream> captured_launches;
    OwnEvent finished;  ///< recorded on `launches`
    OwnEvent captured;  ///< recorded in a graph
    OwnEvent sent;      ///< recorded, in a graph or not, behind copies that cross
    TeamTurns turns;
    ListMemory lists;
    DeviceMemory flags, workspace;
    std::byte* words = nullptr;      ///< where it sees the abort word and the progress
    std::uint32_t most_threads = 0;  ///< of a block
  };

  struct Shared {
    std::vector<std::unique_ptr<LoadedProgram>> programs;
    std::vector<BlockBudget::Need> needs;     ///< of all programs
    std::vector<std::uint64_t> list_bytes;    ///< of each GPU's lists
    const LoadedProgram* launched = nullptr;  ///< the last one, not by graphs
    bool launched_copies = false;             ///< it was made by copies
    std::uint32_t home = 0;                   ///< the GPU on which the last launch ends
  };

  std::string standing(const LoadedProgram* program) const;
  Status number_devices();
  Status open(Gpu& gpu);
  Status zero_state(Gpu& gpu) const;
  /// Whether a call's kernels wait for each other, so that blocks are counted.
  bool counts_blocks() const { return gpus_.size() > 1; }
  ProgramRoom room_on(const Gpu& gpu) const;
  Status choose_threads(Gpu& gpu) const;
  Status take_room(std::span<const BlockBudget::Need> needs);
  int device_of(std::uint32_t rank) const { return gpus_[numbers_[rank]].device; }
  bool are_reached(std::span<const TeamCall> calls) const;
  const LoadedProgram& fitting(std::span<const TeamCall> calls) const;
  Result<std::vector<cudaStream_t>> streams_for(std::span<const TeamCall> calls,
                                                std::uint32_t last);
  static Result<cudaStream_t> captured_stream(Gpu& gpu, std::uint64_t capture);
  /// Makes a call: true if by copies, false if by kernels.
  Result<bool> make(const LoadedProgram& program, std::span<const TeamCall> calls,
                    std::span<const cudaStream_t> streams);
  /// Whether it has put the call into the streams as copies.
  Result<bool> copy(const LoadedProgram& program, std::span<const TeamCall> calls,
                    std::span<const cudaStream_t> streams);
  Status put_copies(std::span<const PlacedCopies> copies, const LoadedProgram& program,
                    std::span<const TeamCall> calls, std::span<const cudaStream_t> streams);
  Status put_sent(std::span<const PlacedCopy> copies, const TeamLaunch& launch,
                  std::uint32_t number, cudaStream_t stream) const;
  Status put_spread(std::span<const PlacedCopy> copies, const TeamLaunch& launch,
                    std::uint32_t number, cudaStream_t stream) const;
  Status launch_parts(const LoadedProgram& program, std::span<const TeamCall> calls,
                      std::span<const cudaStream_t> streams);
  bool end_parts(std::uint32_t count, bool is_captured);
  Status join(std::span<const cudaStream_t> streams, std::uint32_t home, bool is_captured) const;
  TeamLaunch arguments(const LoadedProgram& program, std::span<const TeamCall> calls,
                       std::uint32_t number) const;
  const OwnEvent& end_of(const Gpu& gpu, bool is_captured) const {
    return is_captured ? gpu.captured : gpu.finished;
  }
  std::uint64_t* abort_word() const { return reinterpret_cast<std::uint64_t*>(words_.get()); }
  TeamProgress* progress() const {
    return reinterpret_cast<TeamProgress*>(words_.get() + kProgressAt);
  }

  const TeamOptions options_;
  std::vector<std::uint32_t> numbers_;  // by rank; immutable after open()
  std::vector<Gpu> gpus_;               // by number; immutable after open(), but captured_launches
  std::vector<OwnEvent> arrived_;       // by rank; immutable after open()
  bool can_copy_ = true;                // immutable after open(); from each GPU to each other one
  MappedMemory words_;                  // the abort word, then at kProgressAt the blocks' progress
  std::uint64_t launches_ = 0;          // one launch comes after the other
  Guarded<Shared> shared_;
  std::atomic<bool> is_even_{true};
};

}  // namespace ccoll::device
