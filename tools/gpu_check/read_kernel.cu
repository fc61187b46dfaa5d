// SPDX-License-Identifier: Apache-2.0
#include "read_kernel.hpp"

#include <cstdint>

namespace ccoll::gpu_check {
namespace {

__device__ void see(uint4& seen, const uint4& word) {
  seen.x |= word.x;
  seen.y |= word.y;
  seen.z |= word.z;
  seen.w |= word.w;
}

/// Four words of each thread are under way at once. Writes only where all bits were seen.
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

}  // namespace

const void* read_kernel() { return reinterpret_cast<const void*>(&read_words); }

}  // namespace ccoll::gpu_check
