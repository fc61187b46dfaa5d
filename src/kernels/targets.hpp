// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The SIMD targets that Highway compiles the kernels for. Include it before any Highway header.
///
/// Machines with SSSE3 but not SSE4 are too old to be worth a copy of each kernel. The kernels keep
/// vectors in arrays, which scalable vectors forbid: machines that have those use NEON.

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// Its functions are in targets.cpp, and nobody else's.
#undef HWY_SHARED_DEFINE

#include <hwy/targets.h>
