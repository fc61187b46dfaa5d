// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernel around the interpreter: a cooperative launch of program.block_count blocks, each with
/// program.shared_words() words of dynamic shared memory.

#include "engine/device/interpret.hpp"
#include "engine/device/team_kernel.hpp"

namespace ccoll::device {

template <Family family>
__global__ void __launch_bounds__(kMostTeamThreads)
    team_kernel(const __grid_constant__ TeamLaunch launch) {
  extern __shared__ std::uint64_t shared[];
  const CudaBlock block;
  TeamInterpreter<family, CudaBlock>(block, launch, blockIdx.x, shared).run();
}

}  // namespace ccoll::device
