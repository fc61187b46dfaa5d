// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ccoll::gpu_check {

inline constexpr std::uint32_t kFreshKernels = 64;

/// A kernel that nothing has loaded before it is launched: `void(std::uint32_t* words,
/// std::uint32_t count)`, which adds `number` + 1 to each word; `number` below kFreshKernels.
const void* fresh_kernel(std::uint32_t number);

}  // namespace ccoll::gpu_check
