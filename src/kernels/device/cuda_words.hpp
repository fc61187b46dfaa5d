// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What CUDA's errors say. Needs CUDA's headers.

#include <cuda_runtime_api.h>

namespace ccoll::device {

/// In CUDA's words, but for a driver that is not there, which it calls too old.
inline const char* words_of(cudaError_t error) {
  int driver = 0;
  const bool has_none = error == cudaErrorInsufficientDriver &&
                        cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
  return has_none ? "no NVIDIA driver is installed here" : cudaGetErrorString(error);
}

}  // namespace ccoll::device
