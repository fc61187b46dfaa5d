// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CCOLL_HOST_DEVICE marks a function that host and device share. It is empty without a CUDA
/// compiler, so such code needs no CUDA header. CCOLL_UNROLL stands before a loop over values that
/// must be in registers, which cannot be indexed at run time. CCOLL_NO_UNROLL stands before a loop
/// with much code. On the host the compiler decides both. Besides, here is what the standard
/// library has, and device code may lack.

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

namespace ccoll::element {

/// std::bit_cast, which device code may lack.
template <typename To, typename From>
CCOLL_HOST_DEVICE constexpr To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace ccoll::element
