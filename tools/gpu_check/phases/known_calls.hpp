// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank's calls of a communicator with known results: whole numbers that depend on the rank, the
/// place and the round, so that results of an earlier round are wrong.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"
#include "gpu/cuda/cuda.hpp"

namespace ccoll::gpu_check {

/// Memory on the current device, allocated once: freeing it waits for all streams of the process.
class KnownCalls {
 public:
  /// Blocks of `count` elements for up to `most_ranks` ranks; rounds are below `rounds`.
  KnownCalls(std::size_t count, int most_ranks, int rounds);

  /// Puts the round's inputs, and poison in its outputs, in the order of `stream`; `rank` and
  /// `size` are the communicator's.
  void put(int round, int rank, int size, cudaStream_t stream);
  /// Makes an all_reduce, all_gather, reduce_scatter, all_to_all and a broadcast in `stream`.
  void call(Communicator& communicator, cudaStream_t stream) const;
  /// Waits for `stream`. Describes the first wrong result of the round; empty if all are right.
  std::string wrong(cudaStream_t stream) const;

 private:
  using Words = std::vector<std::uint32_t>;

  /// Element `i` of a rank's input.
  static std::uint32_t value(int rank, std::size_t i, int round);
  std::uint32_t sum(std::size_t i) const;
  std::uint32_t* output(std::size_t number) const;
  Words expected() const;

  const std::size_t count_;
  const std::size_t block_;  ///< per output, with a guard behind it
  const int rounds_;
  int rank_ = -1;
  int size_ = 0;
  int round_ = 0;
  device::DeviceMemory table_;  ///< the inputs of all rounds: each begins a little later in it
  device::DeviceMemory input_, outputs_;
};

}  // namespace ccoll::gpu_check
