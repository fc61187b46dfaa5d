// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank's calls of a communicator with results that anyone can work out: of whole numbers that
/// depend on the rank, the place and the round, so that what an earlier round left is never right.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"
#include "gpu/cuda/cuda.hpp"

namespace ccoll::gpu_check {

/// Memory on the current device, taken once: to give it back waits for all streams of the process.
class KnownCalls {
 public:
  /// Blocks of `count` elements, of up to `most_ranks` ranks; rounds from 0 below `rounds`.
  KnownCalls(std::size_t count, int most_ranks, int rounds);

  /// The round's inputs, and poison where its results come, in the order of `stream`; `rank` and
  /// `size` are the communicator's.
  void put(int round, int rank, int size, cudaStream_t stream);
  /// An all_reduce, all_gather, reduce_scatter, all_to_all and a broadcast in `stream`.
  void call(Communicator& communicator, cudaStream_t stream) const;
  /// Waits for `stream`. The first thing there that is not as the round's calls leave it; empty
  /// where all is.
  std::string wrong(cudaStream_t stream) const;

 private:
  using Words = std::vector<std::uint32_t>;

  /// Element `i` of a rank's input.
  static std::uint32_t value(int rank, std::size_t i, int round);
  std::uint32_t sum(std::size_t i) const;
  std::uint32_t* output(std::size_t number) const;
  Words expected() const;

  const std::size_t count_;
  const std::size_t block_;  ///< of each output, with a guard behind it
  const int rounds_;
  int rank_ = -1;
  int size_ = 0;
  int round_ = 0;
  device::DeviceMemory table_;  ///< the inputs of all rounds: each begins a little later in it
  device::DeviceMemory input_, outputs_;
};

}  // namespace ccoll::gpu_check
