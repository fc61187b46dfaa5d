// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/combine_kernel.cuh"

namespace ccoll::device {

const void* combine_kernel_of_bits() {
  return reinterpret_cast<const void*>(&combine_kernel<Family::bits>);
}

}  // namespace ccoll::device
