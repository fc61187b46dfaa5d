// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Describes which bytes of memory are wrong, in enough detail to find the cause.

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>

namespace ccoll::testing {

/// "2 of 64 bytes differ: PLACE: found 0x01, expected 0x02; …", where `place` names a byte by its
/// index. Empty if none differs.
template <typename Place>
std::string differences(std::span<const std::byte> found, std::span<const std::byte> expected,
                        const Place& place) {
  constexpr std::size_t kMostTold = 6;
  if (found.size() != expected.size())
    return fmt::format("{} bytes, expected {}", found.size(), expected.size());
  std::size_t wrong = 0, last = 0;
  std::string told;
  for (std::size_t at = 0; at < found.size(); ++at) {
    if (found[at] == expected[at]) continue;
    last = at;
    if (++wrong > kMostTold) continue;
    told +=
        fmt::format("{}{}: found {:#04x}, expected {:#04x}", told.empty() ? "" : "; ", place(at),
                    static_cast<unsigned>(found[at]), static_cast<unsigned>(expected[at]));
  }
  if (wrong > kMostTold) told += fmt::format("; … the last: {}", place(last));
  return wrong == 0 ? "" : fmt::format("{} of {} bytes differ: {}", wrong, found.size(), told);
}

inline std::string differences(std::span<const std::byte> found,
                               std::span<const std::byte> expected) {
  return differences(found, expected, [](std::size_t at) { return fmt::format("byte {}", at); });
}

}  // namespace ccoll::testing
