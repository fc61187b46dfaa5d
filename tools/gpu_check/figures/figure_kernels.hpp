// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What calls are compared with: kernels that only move memory, do nothing, or hand a flag over.

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

/// What memory gives who only reads: `void(const uint4* from, std::uint64_t words, uint4* out)`,
/// which writes to `out` only where every bit was set in some word.
const void* read_kernel();

/// `void(Fan)`: each output is all inputs' bits together, as a plain kernel can whose blocks wait
/// for nobody.
const void* fan_kernel();

/// `void()`, also as a cooperative launch.
const void* empty_kernel();

/// `void(std::uint32_t* flags, std::uint32_t rounds)`: a cooperative launch of two blocks, between
/// which a flag goes to and fro so often. `flags`: 256 bytes that are zero.
const void* round_trip_kernel();

}  // namespace ccoll::gpu_check
