// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Hashes numbers: for keys of tables, and for ids of communicators on which all ranks must agree.

#include <cstdint>
#include <span>
#include <string_view>

namespace ccoll {

/// splitmix64's finalizer: every bit of the result depends on every bit of `value`.
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// One number for several; their order matters.
template <typename... Numbers>
constexpr std::uint64_t mix(std::uint64_t first, Numbers... others) {
  // The odd constant keeps zeros from disappearing.
  std::uint64_t mixed = mix(first + 0x9e3779b97f4a7c15ULL);
  ((mixed = mix((mixed ^ static_cast<std::uint64_t>(others)) + 0x9e3779b97f4a7c15ULL)), ...);
  return mixed;
}

/// One number for a text, the same in every build.
constexpr std::uint64_t mix_text(std::string_view text) {
  std::uint64_t mixed = text.size();
  for (const char byte : text) mixed = mix(mixed, static_cast<unsigned char>(byte));
  return mixed;
}

inline std::uint64_t mix_ranks(std::span<const std::uint32_t> ranks) {
  std::uint64_t hash = ranks.size();
  for (const auto rank : ranks) hash = mix(hash, rank);
  return hash;
}

}  // namespace ccoll
