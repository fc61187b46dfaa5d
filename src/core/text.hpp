// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text for messages.

#include <string>

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

}  // namespace ccoll
