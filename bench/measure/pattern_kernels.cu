// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/pattern_kernels.hpp"

#include "kernels/device/combine_kernel.cuh"

namespace ccoll::bench {
namespace {

__global__ void fill_elements(const __grid_constant__ PatternRun run) {
  fill_part(device::Grid(), run);
}
__global__ void count_wrong_elements(const __grid_constant__ PatternRun run) {
  count_wrong_part(device::Grid(), run);
}

}  // namespace

const void* fill_kernel() { return reinterpret_cast<const void*>(&fill_elements); }
const void* count_wrong_kernel() { return reinterpret_cast<const void*>(&count_wrong_elements); }

}  // namespace ccoll::bench
