// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernels that calls are compared with: they only move memory, do nothing, or pass a flag.

#include <cstdint>

namespace ccoll::gpu_check {

inline constexpr std::uint32_t kMostFans = 8;

/// Buffers of `words` times 16 bytes.
struct Fan {
  const void* inputs[kMostFans] = {};
  void* outputs[kMostFans] = {};
  std::uint32_t input_count = 0;
  std::uint32_t output_count = 0;
  std::uint64_t words = 0;
};

/// Measures reading alone: `void(const uint4* from, std::uint64_t words, uint4* out)`, which writes
/// to `out` only if each bit is set in some word.
const void* read_kernel();

/// `void(Fan)`: each output combines all inputs' bits, as in a plain kernel without waits between
/// blocks.
const void* fan_kernel();

/// `void()`, also as a cooperative launch.
const void* empty_kernel();

/// `void(std::uint32_t* flags, std::uint32_t rounds)`: a cooperative launch of two blocks that pass
/// a flag to and fro `rounds` times. `flags`: 256 bytes that are zero.
const void* round_trip_kernel();

}  // namespace ccoll::gpu_check
