// SPDX-License-Identifier: Apache-2.0
#include "show/text/wrapped.hpp"

#include <algorithm>

namespace ccoll::show {

std::string wrapped(std::string_view text, std::size_t width, std::string_view indent) {
  if (text.empty()) return {};
  std::string all;
  std::string line(indent);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool is_first = line == indent;
    if (!is_first && line.size() + 1 + word.size() > width) {
      all += line + '\n';
      line = indent;
    } else if (!is_first) {
      line += ' ';
    }
    line += word;
  }
  return all + line + '\n';
}

}  // namespace ccoll::show
