// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CCOLL_HOST_DEVICE marks a function that host and device share; empty where no CUDA compiler is
/// at work, so that such code needs no CUDA header. CCOLL_UNROLL stands before a loop over what is
/// to lie in registers, which cannot be indexed at run time, CCOLL_NO_UNROLL before one of much
/// code; on the host both are the compiler's affair.

#ifdef __CUDACC__
#define CCOLL_HOST_DEVICE __host__ __device__
#else
#define CCOLL_HOST_DEVICE
#endif

#ifdef __CUDA_ARCH__
#define CCOLL_UNROLL _Pragma("unroll")
#define CCOLL_NO_UNROLL _Pragma("unroll 1")
#else
#define CCOLL_UNROLL
#define CCOLL_NO_UNROLL
#endif
