// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/combine_kernel.cuh"

namespace ccoll::device {

const void* combine_kernel_of_floats() {
  return reinterpret_cast<const void*>(&combine_kernel<Family::floats>);
}

}  // namespace ccoll::device
