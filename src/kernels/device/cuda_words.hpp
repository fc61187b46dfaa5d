// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The words for CUDA's errors. Needs CUDA's headers.

#include <cuda_runtime_api.h>

namespace ccoll::device {

/// CUDA's words, except for a driver that is not there: CUDA calls that too old.
inline const char* words_of(cudaError_t error) {
  int driver = 0;
  const bool has_none = error == cudaErrorInsufficientDriver &&
                        cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
  return has_none ? "no NVIDIA driver is installed here" : cudaGetErrorString(error);
}

}  // namespace ccoll::device
