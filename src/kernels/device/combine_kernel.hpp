// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the host hands to the kernel that combines, what it does first, and where each family's
/// kernel is. No CUDA header: both compilers read it.

#include <cstddef>
#include <cstdint>

#include "ccoll/types.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// How many sources one launch takes: their addresses travel in the kernel's arguments.
inline constexpr std::size_t kMostSources = 64;

/// The most threads a block of these kernels has, for which registers are shared out.
inline constexpr std::uint32_t kMostThreads = 512;

/// Words of the host's memory, as the device sees it, by which a launch is watched.
struct LaunchWords {
  const std::uint32_t* abort = nullptr;  ///< null: none; where it is not 0 nothing is done
  std::uint32_t* begun = nullptr;        ///< null: none; else `number` is stored there
  std::uint32_t number = 0;
};

struct CombineArguments {
  const std::byte* sources[kMostSources] = {};
  std::byte* out = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t source_count = 0;
  std::uint32_t divisor = 1;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  LaunchWords words;
};

/// Whether to go on. By one thread of each block, of which one is the `first` of the launch.
CCOLL_HOST_DEVICE inline bool begin(const LaunchWords& words, bool first) {
  if (words.abort != nullptr && load_relaxed(words.abort) != 0) return false;
  if (first && words.begun != nullptr) store_relaxed(words.begun, words.number);
  return true;
}

/// The kernels, each `void(const CombineArguments)`, as cudaLaunchKernel takes them. A file for
/// each family: they compile side by side.
const void* combine_kernel_of_bits();
const void* combine_kernel_of_floats();
const void* combine_kernel_of_integers();
const void* combine_kernel_of_small_floats();

}  // namespace ccoll::device
