// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which SIMD targets Highway compiles the kernels for. Included before any header of Highway.
///
/// Every machine with SSSE3 but not SSE4 is older than those worth a copy of each kernel. The
/// kernels keep vectors in arrays, which scalable vectors forbid: such machines use NEON.

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/targets.h>
