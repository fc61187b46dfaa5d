// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What tests may ask of the GPU that cuda_on_host.cpp plays, beside what CUDA has.

#include <cuda_runtime_api.h>

extern "C" {

/// From now on nothing goes on and whoever asks gets `error`, as after a kernel that read where
/// nothing is; until cudaSuccess is given.
void cuda_on_host_fails(cudaError_t error);

}  // extern "C"
