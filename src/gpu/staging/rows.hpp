// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Pieces of device memory, and the memory of the host or the device to or from which they are
/// copied, in as few copies as possible: pieces of one length at equal distances are rows of one
/// copy. Pure.

#include <cstddef>
#include <cstdint>

namespace ccoll::device {

struct Rows {
  /// The largest pitch that a copy can have, on any GPU (cudaDeviceProp::memPitch).
  static constexpr std::uint64_t kMostPitch = INT32_MAX;

  std::byte* there;     ///< the first row, on the device
  std::uint64_t left;   ///< bytes of its allocation from there on
  std::byte* here;      ///< the first row, in the other memory
  std::uint64_t bytes;  ///< of each row
  std::uint64_t count = 1;
  std::uint64_t pitch_there = 0;  ///< from one row to the next
  std::uint64_t pitch_here = 0;

  /// Makes the piece behind those before another row, if it can be one.
  bool take(const std::byte* next_there, const std::byte* next_here, std::uint64_t next_bytes) {
    const auto pitch = [&](const std::byte* first, const std::byte* next, std::uint64_t before) {
      const auto* const last = first + (count - 1) * before;
      return last < next ? static_cast<std::uint64_t>(next - last) : 0;
    };
    const auto far = pitch(there, next_there, pitch_there);
    const auto near = pitch(here, next_here, pitch_here);
    if (next_bytes != bytes || far < bytes || near < bytes) return false;
    if (far > kMostPitch || near > kMostPitch || count * far + bytes > left) return false;
    if (count > 1 && (far != pitch_there || near != pitch_here)) return false;
    pitch_there = far;
    pitch_here = near;
    ++count;
    return true;
  }
};

}  // namespace ccoll::device
