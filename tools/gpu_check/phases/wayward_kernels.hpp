// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ccoll::gpu_check {

inline constexpr std::uint32_t kFreshKernels = 64;

/// A kernel that is loaded only by its launch: `void(std::uint32_t* words, std::uint32_t count)`,
/// which adds `number` + 1 to each word; `number` below kFreshKernels.
const void* fresh_kernel(std::uint32_t number);

/// Errors for sanitizers to find: `void(std::uint32_t* words, std::uint32_t count)`, launched with
/// one block of at most `count` threads. The first reads behind `count` words; in the second some
/// threads miss a barrier.
const void* kernel_out_of_bounds();
const void* kernel_beside_barrier();

/// Occupies multiprocessors: `void(const std::uint32_t* go, std::uint64_t most_ns)`, which ends
/// when `go` is not 0, or after that time.
const void* occupying_kernel();

}  // namespace ccoll::gpu_check
