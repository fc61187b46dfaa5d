// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text from elsewhere (callers' labels, other ranks' words), made fit to show to people.

#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll {

struct Printable {
  std::string text;
  bool whole = true;  ///< false if the text was cut
};
/// `text` with control characters, and bytes that are no UTF-8, escaped ("\n", "\x1b"). The result
/// has at most `most_bytes`, and never a part of a character.
Printable printable(std::string_view text, std::size_t most_bytes);

}  // namespace ccoll
