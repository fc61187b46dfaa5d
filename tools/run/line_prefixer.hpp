// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Splits a rank's output into whole lines, prefixed with its number.

#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll {

class LinePrefixer {
 public:
  /// The longest line that is buffered; longer ones are broken there.
  static constexpr std::size_t kMaxLineBytes = 1 << 20;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The lines that `bytes` completes, each with its prefix; keeps an unfinished rest.
  std::string feed(std::string_view bytes);
  /// The unfinished last line, completed; empty if there is none.
  std::string finish();

 private:
  const std::string prefix_;
  std::string rest_;
};

}  // namespace ccoll
