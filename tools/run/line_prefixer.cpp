// SPDX-License-Identifier: Apache-2.0
#include "run/line_prefixer.hpp"

#include <algorithm>

namespace ccoll {

std::string LinePrefixer::feed(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const std::size_t room = kMaxLineBytes - rest_.size();
    const std::size_t end = bytes.substr(0, room).find('\n');
    const std::size_t taken = end == std::string_view::npos ? std::min(bytes.size(), room) : end;
    rest_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (end != std::string_view::npos) {
      bytes.remove_prefix(1);
      lines += prefix_ + rest_ + "\n";
      rest_.clear();
    } else if (rest_.size() == kMaxLineBytes) {
      lines += finish();
    }
  }
  return lines;
}

std::string LinePrefixer::finish() {
  if (rest_.empty()) return {};
  std::string line = prefix_ + rest_ + "\n";
  rest_.clear();
  return line;
}

}  // namespace ccoll
