// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text from elsewhere (callers' labels, other ranks' words) that is to be shown to people.

#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll {

struct Printable {
  std::string text;
  bool whole = true;  ///< whether that is all
};
/// `text` with its control characters, and bytes that are no UTF-8, escaped ("\n", "\x1b"); no more
/// than `most_bytes` of that, and never a part of a character.
Printable printable(std::string_view text, std::size_t most_bytes);

}  // namespace ccoll
