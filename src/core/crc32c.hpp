// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CRC32C (Castagnoli's polynomial; RFC 3720, B.4), with the processor's own instruction if it has
/// one.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ccoll {

/// The checksum of these bytes after bytes with the checksum `before`; no bytes have the checksum
/// 0.
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);

namespace detail {

struct Crc32cMethod {
  std::string_view name;  ///< "table", "sse4.2", "armv8"
  std::uint32_t (*compute)(std::uint32_t before, const void* data, std::size_t bytes);
};
/// The methods that this processor has, the slowest first; crc32c uses the last.
std::vector<Crc32cMethod> crc32c_methods();

}  // namespace detail

}  // namespace ccoll
