// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernel/claim.hpp"

namespace ccoll::device {
namespace {

__global__ void begin(const __grid_constant__ CopyClaim copies) { begin_copies(copies); }
__global__ void end(const __grid_constant__ CopyClaim copies) { end_copies(copies); }

}  // namespace

const void* copies_begin_kernel() { return reinterpret_cast<const void*>(&begin); }
const void* copies_end_kernel() { return reinterpret_cast<const void*>(&end); }

}  // namespace ccoll::device
