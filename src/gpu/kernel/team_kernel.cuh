// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernel around the interpreter: a cooperative launch of program.block_count blocks, each with
/// program.shared_words() words of dynamic shared memory.

#include "gpu/kernel/interpret.hpp"
#include "gpu/kernel/team_kernel.hpp"

namespace ccoll::device {

template <Family family, bool by_words>
__global__ void __launch_bounds__(kMostTeamThreads)
    team_kernel(const __grid_constant__ TeamLaunch launch) {
  extern __shared__ std::uint64_t shared[];
  const CudaBlock block;
  TeamInterpreter<family, by_words, CudaBlock>(block, launch, blockIdx.x, shared).run();
}

/// The kernel of a family that runs such programs.
template <Family family>
const void* team_kernel_of(bool by_words) {
  return by_words ? reinterpret_cast<const void*>(&team_kernel<family, true>)
                  : reinterpret_cast<const void*>(&team_kernel<family, false>);
}

}  // namespace ccoll::device
