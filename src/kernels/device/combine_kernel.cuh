// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernel that combines on one device. All its arguments are known at the launch.

#include "kernels/device/combine.hpp"
#include "kernels/device/combine_kernel.hpp"

namespace ccoll::device {

/// All blocks of a launch as one, for code without barriers.
struct Grid {
  CCOLL_HOST_DEVICE std::uint32_t thread() const {
#ifdef __CUDA_ARCH__
    return blockIdx.x * blockDim.x + threadIdx.x;
#else
    return 0;
#endif
  }
  CCOLL_HOST_DEVICE std::uint32_t threads() const {
#ifdef __CUDA_ARCH__
    return gridDim.x * blockDim.x;
#else
    return 1;
#endif
  }
  /// It is here only because a Block has one.
  CCOLL_HOST_DEVICE void barrier() const {
#ifdef __CUDA_ARCH__
    __trap();
#endif
  }
};

template <Family family>
__global__ void __launch_bounds__(kMostThreads)
    combine_kernel(const __grid_constant__ CombineArguments arguments) {
  __shared__ const std::byte* sources[kMostSources];
  const bool ends = threadIdx.x == 0 && !begin(arguments.words, blockIdx.x == 0);
  for (std::uint32_t i = threadIdx.x; i < arguments.source_count; i += blockDim.x) {
    sources[i] = source_of(arguments, i);
  }
  if (__syncthreads_or(ends) != 0) return;
  combine_family<family>(
      Grid(), arguments.type, arguments.op,
      {sources, arguments.source_count, arguments.out, arguments.bytes, arguments.divisor});
}

}  // namespace ccoll::device
