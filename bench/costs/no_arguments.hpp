// SPDX-License-Identifier: Apache-2.0
#pragma once

/// For programs that take no arguments.

#include <cstdio>
#include <optional>
#include <string_view>

namespace ccoll::bench {

/// The program's exit status if it is not to run: an argument was given. `usage`: how to start it.
inline std::optional<int> not_to_run(int count, const char* const* values, const char* usage) {
  if (count <= 1) return std::nullopt;
  const std::string_view first = values[1];
  const bool asks = first == "-h" || first == "--help";
  if (!asks) std::fprintf(stderr, "unexpected argument '%s'; ", values[1]);
  std::fprintf(asks ? stdout : stderr, "usage: %s\n", usage);
  return asks ? 0 : 2;
}

}  // namespace ccoll::bench
