// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copies for lengths that are mostly a few bytes.

#include <cstddef>
#include <cstring>

namespace ccoll {

/// As memcpy, but faster for 4 to 16 bytes, which take less time than a call: two copies of a fixed
/// length that overlap in the middle.
inline void copy_few(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto ends = [&]<std::size_t length>(std::byte(&first)[length], std::byte(&last)[length]) {
    std::memcpy(first, from, length);
    std::memcpy(last, from + bytes - length, length);
    std::memcpy(to, first, length);
    std::memcpy(to + bytes - length, last, length);
  };
  if (bytes >= 8 && bytes <= 16) {
    std::byte first[8], last[8];
    ends(first, last);
  } else if (bytes >= 4 && bytes < 8) {
    std::byte first[4], last[4];
    ends(first, last);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace ccoll
