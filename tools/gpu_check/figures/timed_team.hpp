// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team whose calls are timed. Sums of float32 are exact, because all bytes of all inputs are the
/// same.

#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/cuda.hpp"
#include "gpu/team/team.hpp"

namespace ccoll::gpu_check {

/// The value of each input byte.
inline constexpr int kFill = 1;

using Buffers = std::vector<device::DeviceMemory>;

/// Makes `count` buffers of `bytes` each.
Result<Buffers> make_buffers(std::size_t count, std::uint64_t bytes);

class TimedTeam {
 public:
  /// The first half of `buffers` are the ranks' inputs, the rest their outputs. Rank 0 is on the
  /// stream given to call().
  TimedTeam(std::uint32_t ranks, const Buffers& buffers, std::uint64_t buffer_bytes,
            device::CopyUse copies = device::CopyUse::never);

  struct Program {
    Kind kind;
    std::uint64_t bytes;  ///< of the larger buffer of a rank
    const device::LoadedProgram* loaded;
    std::uint32_t blocks;
    std::uint32_t threads;     ///< per block
    std::size_t shared_bytes;  ///< per block
  };
  /// Fails if the GPU cannot run that many blocks at once, or slots take too much memory.
  Result<Program> load(Kind kind, const Choice& choice, std::uint64_t bytes);
  Status call(const Program& program, cudaStream_t stream);
  /// Describes wrong results of a call, if any; the outputs are poisoned first.
  std::string wrong(const Program& program, cudaStream_t stream);

  std::uint32_t ranks() const { return ranks_; }
  std::byte* input(std::uint32_t rank) const { return buffers_[rank].get(); }
  std::byte* output(std::uint32_t rank) const { return buffers_[buffers_.size() / 2 + rank].get(); }
  /// Rank 0's is `stream`; the others have their own.
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
