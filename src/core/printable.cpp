// SPDX-License-Identifier: Apache-2.0
#include "core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ccoll {
namespace {

/// Bytes of the first character of `text`; 0 if it is no UTF-8.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; i++)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Reject encodings longer than needed, halves of pairs, and numbers beyond the last.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90))
    return 0;
  return length;
}

/// Whether a terminal may take it as a command.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

std::string escaped(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  std::string text;
  for (const char each : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
  return text;
}

}  // namespace

Printable printable(std::string_view text, std::size_t most_bytes) {
  Printable shown;
  while (!text.empty()) {
    const auto length = length_of_character(text);
    const auto character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool plain = length > 0 && !is_control(character);
    const auto words = plain ? std::string(character) : escaped(character);
    shown.whole = shown.text.size() + words.size() <= most_bytes;
    if (!shown.whole) break;
    shown.text += words;
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace ccoll
