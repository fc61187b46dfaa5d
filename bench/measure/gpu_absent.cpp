// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/gpu.hpp"

namespace ccoll::bench {

Result<int> count_gpus() {
  return fail(ErrorKind::unsupported,
              "this build of ccoll has no CUDA: nvcc 12.8 or newer was not found, or Meson's "
              "option cuda is disabled");
}

std::unique_ptr<Gpu> open_gpu(int /*local_rank*/) {
  value_or_throw(count_gpus());
  return nullptr;
}

}  // namespace ccoll::bench
