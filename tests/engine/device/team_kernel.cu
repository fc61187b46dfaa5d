// SPDX-License-Identifier: Apache-2.0
// The team kernel as nvcc takes it, of the family that compiles fastest.
#include "engine/device/team_kernel.cuh"

namespace ccoll::device {

template __global__ void team_kernel<Family::bits>(const __grid_constant__ TeamLaunch launch);

}  // namespace ccoll::device
