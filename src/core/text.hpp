// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text for messages.

#include <cstdint>
#include <string>
#include <vector>

namespace ccoll {

/// "a, b, c": the names in a range of strings or string views. (fmt::join over string views makes
/// GCC 12 warn of an overflow that is not there.)
template <typename Names>
std::string joined(const Names& names) {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

/// "ranks 0-2, 5", "rank 7": in the order given, what ascends by one as a range. A long list ends
/// with how many more there are.
std::string list_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace ccoll
