// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team whose calls are timed: of float32 that add up without rounding, since every byte of every
/// input is the same.

#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/team/team.hpp"

namespace ccoll::gpu_check {

/// Of every input.
inline constexpr int kFill = 1;

using Buffers = std::vector<device::DeviceMemory>;

/// As many as `count`, of `bytes` each.
Result<Buffers> make_buffers(std::size_t count, std::uint64_t bytes);

class TimedTeam {
 public:
  /// Of `buffers` the first half are ranks' inputs, the others their outputs; rank 0 is on the
  /// stream that is given to call().
  TimedTeam(std::uint32_t ranks, const Buffers& buffers, std::uint64_t buffer_bytes,
            device::CopyUse copies = device::CopyUse::never);

  struct Program {
    Kind kind;
    std::uint64_t bytes;  ///< of the larger buffer of a rank
    const device::LoadedProgram* loaded;
    std::uint32_t blocks;
    std::uint32_t threads;     ///< of each
    std::size_t shared_bytes;  ///< of each
  };
  /// Fails where the GPU does not run so many blocks at once, or slots take too much.
  Result<Program> load(Kind kind, const Choice& choice, std::uint64_t bytes);
  Status call(const Program& program, cudaStream_t stream);
  /// What a call leaves that it should not, if anything; poison comes before it.
  std::string wrong(const Program& program, cudaStream_t stream);

  std::uint32_t ranks() const { return ranks_; }
  std::byte* input(std::uint32_t rank) const { return buffers_[rank].get(); }
  std::byte* output(std::uint32_t rank) const { return buffers_[buffers_.size() / 2 + rank].get(); }
  /// Of rank 0 on `stream`, and of the others.
  std::vector<cudaStream_t> streams(cudaStream_t stream) const;

 private:
  std::string wrong_results(const Program& program, std::uint32_t rank) const;

  const std::uint32_t ranks_;
  const Buffers& buffers_;
  const std::uint64_t buffer_bytes_;
  std::vector<device::OwnStream> streams_;
  std::unique_ptr<device::Team> team_;
};

}  // namespace ccoll::gpu_check
