// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Cuts what a rank writes into whole lines with its number before them.

#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll {

class LinePrefixer {
 public:
  /// The longest line kept back for its end; longer ones are broken there.
  static constexpr std::size_t kMaxLineBytes = 1 << 20;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The lines that `bytes` completes, each with its prefix; an unfinished rest is kept.
  std::string feed(std::string_view bytes);
  /// The unfinished last line, ended; empty if there is none.
  std::string finish();

 private:
  const std::string prefix_;
  std::string rest_;
};

}  // namespace ccoll
