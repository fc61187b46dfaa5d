// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What tests may ask of the GPU that cuda_on_host.cpp plays, beside what CUDA has.

#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {

/// From now on nothing goes on and whoever asks gets `error`, as after a kernel that read where
/// nothing is; until cudaSuccess is given.
void cuda_on_host_fails(cudaError_t error);

/// Whether this thread gets no memory of the GPU from now on.
void cuda_on_host_is_full(bool is);

/// Whether the memory there is said to be of a GPU behind the last: of GPU 1, where there is one.
void cuda_on_host_moves(const void* memory, std::size_t bytes, bool is_there);

/// From now on there are so many devices, which differ in nothing but whether they have a context;
/// none has one yet. All memory is of the last of them. At first there is one device.
void cuda_on_host_has(int devices);
bool cuda_on_host_has_context(int device);

}  // extern "C"
