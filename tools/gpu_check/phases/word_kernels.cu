// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/phases/word_kernels.hpp"

#include "gpu/team/word_hammer.hpp"

namespace ccoll::gpu_check {
namespace {

__global__ void hammer_words(const test::WordHammer with) {
  test::hammer(device::CudaBlock(), blockIdx.x, with);
}

}  // namespace

const void* hammer_kernel() { return reinterpret_cast<const void*>(&hammer_words); }

}  // namespace ccoll::gpu_check
