// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/figures/figure_kernels.hpp"

#include "kernels/device/layer.hpp"

namespace ccoll::gpu_check {
namespace {

__device__ void see(uint4& seen, const uint4& word) {
  seen.x |= word.x;
  seen.y |= word.y;
  seen.z |= word.z;
  seen.w |= word.w;
}

/// Each thread has four words in flight. Writes only if all bits were seen.
__global__ void __launch_bounds__(512)
    read_words(const uint4* from, std::uint64_t words, uint4* out) {
  uint4 seen = {0, 0, 0, 0};
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < words; i += 4 * stride) {
    const uint4 four[] = {from[i], from[i + stride], from[i + 2 * stride], from[i + 3 * stride]};
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) see(seen, four[k]);
  }
  for (; i < words; i += stride) see(seen, from[i]);
  if ((seen.x & seen.y & seen.z & seen.w) == 0xffffffff) *out = seen;
}

__global__ void __launch_bounds__(512) fan(const __grid_constant__ Fan of) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < of.words;
       i += stride) {
    uint4 all = {0, 0, 0, 0};
#pragma unroll
    for (std::uint32_t k = 0; k < kMostFans; ++k) {
      if (k < of.input_count) see(all, static_cast<const uint4*>(of.inputs[k])[i]);
    }
#pragma unroll
    for (std::uint32_t k = 0; k < kMostFans; ++k) {
      if (k < of.output_count) static_cast<uint4*>(of.outputs[k])[i] = all;
    }
  }
}

__global__ void do_nothing() {}

__global__ void round_trip(std::uint32_t* flags, std::uint32_t rounds) {
  if (threadIdx.x != 0) return;
  // Each flag has a cache line of its own, and one block that writes it.
  std::uint32_t* const mine = flags + 32 * blockIdx.x;
  const std::uint32_t* const other = flags + 32 * (1 - blockIdx.x);
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    if (blockIdx.x == 0) device::store_release(mine, i);
    while (device::load_acquire(other) != i) {
    }
    if (blockIdx.x == 1) device::store_release(mine, i);
  }
}

}  // namespace

const void* read_kernel() { return reinterpret_cast<const void*>(&read_words); }
const void* fan_kernel() { return reinterpret_cast<const void*>(&fan); }
const void* empty_kernel() { return reinterpret_cast<const void*>(&do_nothing); }
const void* round_trip_kernel() { return reinterpret_cast<const void*>(&round_trip); }

}  // namespace ccoll::gpu_check
