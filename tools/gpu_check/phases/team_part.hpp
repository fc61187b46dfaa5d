// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team without a communicator, called by one thread: several programs in sequence, as copies
/// where possible.

#include <memory>
#include <random>
#include <vector>

#include "gpu/team/team.hpp"
#include "gpu/team/team_memory.hpp"
#include "gpu_check/phases/replays.hpp"

namespace ccoll::gpu_check {

class TeamPart final : public Part {
 public:
  TeamPart(std::uint32_t ranks, std::uint64_t seed);

  std::vector<cudaStream_t> streams() const override;
  void put(int round) override;
  void call(std::span<const cudaStream_t> streams) override;
  std::string wrong() override;

 private:
  static constexpr std::size_t kPrograms = 4;  ///< chosen at random

  struct Program {
    test::TeamCase made;
    device::LoweredTeam lowered;
    const device::LoadedProgram* loaded = nullptr;
    test::TeamMemory memory;                  ///< the round's data
    std::vector<device::DeviceMemory> there;  ///< by rank
  };

  void add(const test::TeamCase& made);

  std::mt19937_64 random_;
  std::vector<device::OwnStream> streams_;
  std::vector<Program> programs_;
  testing::TeamOnHost host_{test::kMostBlocks, test::kMostFlags};
  std::unique_ptr<device::Team> team_;  // ends before the streams do
};

}  // namespace ccoll::gpu_check
