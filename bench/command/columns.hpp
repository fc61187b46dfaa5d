// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text that fits a terminal: the width, and the layout of lines and tables.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::bench {

/// The width if none is given: that of most terminals, and of the course.
inline constexpr std::size_t kUsualColumns = 80;

/// The columns of standard output; kUsualColumns if it is no terminal.
std::size_t output_columns();

/// `text` in lines of at most `width` characters, broken at spaces, each behind `indent`. Ends with
/// a newline unless it is empty.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent = "");

/// The same behind `head`, which is no longer than `width`; further lines are aligned with the
/// first word of `text`.
std::string wrapped_beside(std::string_view head, std::string_view text, std::size_t width);

/// `text` with no line longer than `width`: a long line continues below its description, which two
/// spaces separate from its item.
std::string wrapped_lines(std::string_view text, std::size_t width);

/// Rows of cells in columns as wide as their texts, separated by two spaces.
class TextTable {
 public:
  enum class Align { left, right };
  struct Head {
    std::string name;
    Align align = Align::right;
  };
  explicit TextTable(std::vector<Head> heads) : heads_(std::move(heads)) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// In lines of at most `width`. The last column may be text of any length: it is broken, or goes
  /// below its row if there is no room beside it. Other columns are dropped from the right.
  std::string text(std::size_t width) const;

 private:
  std::vector<Head> heads_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ccoll::bench
