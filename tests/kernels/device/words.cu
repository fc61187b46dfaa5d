// SPDX-License-Identifier: Apache-2.0

/// Every word operation of the layer, and a block that consumes a peer's published data and
/// publishes its own, for ptx_test to inspect. Compilers turn this shape into ld.global.nc if
/// pointers are `const __restrict__`.

#include "kernels/device/combine.hpp"

namespace ccoll::device {

__global__ void all_words(std::uint32_t* small, std::uint64_t* big) {
  store_release(small, load_acquire(small + 1));
  store_relaxed(small + 2, load_relaxed(small + 3));
  store_release(big, load_acquire(big + 1));
  store_relaxed(big + 2, load_relaxed(big + 3));
  if (exchange_if(big + 3, 0, 1)) add(big + 4, 1);
}

__global__ void pass_on(const std::byte* theirs, std::byte* mine, std::uint64_t bytes,
                        const std::uint32_t* ready, std::uint32_t* done) {
  const CudaBlock block;
  if (block.thread() == 0) {
    while (load_acquire(ready) == 0) relax();
  }
  block.barrier();
  const std::byte* sources[2] = {theirs, mine};
  combine(block, DataType::float32, ReduceOp::sum, {sources, 2, mine, bytes, 1});
  block.barrier();
  if (block.thread() == 0) store_release(done, 1u);
}

}  // namespace ccoll::device
