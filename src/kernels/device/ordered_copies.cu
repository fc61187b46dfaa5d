// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/ordered_copies.hpp"

#include "kernels/device/combine_kernel.cuh"

namespace ccoll::device {
namespace {

__global__ void __launch_bounds__(kMostThreads)
    ordered_copies(const CopyOrder* order, std::uint32_t number) {
  __shared__ TakenOrder taken;
  take_order(CudaBlock(), order, number, taken);
  make_copies(Grid(), taken);
}

}  // namespace

const void* ordered_copies_kernel() { return reinterpret_cast<const void*>(&ordered_copies); }

}  // namespace ccoll::device
