// SPDX-License-Identifier: Apache-2.0
#include "bench/command/columns.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace ccoll::bench {

namespace {

/// If there is less room than this beside an option, its description goes below it.
constexpr std::size_t kLeastBeside = 16;
/// If there is less room than this for a table's last column, it goes below its row.
constexpr std::size_t kLeastLast = 28;
constexpr std::string_view kBelow = "      ";

/// The number of visible characters of UTF-8.
std::size_t seen(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Where a line's description begins: after the first gap behind its indent. 0: it has none.
std::size_t description_of(std::string_view line) {
  const std::size_t word = line.find_first_not_of(' ');
  const std::size_t gap = line.find("  ", word == line.npos ? 0 : word);
  const std::size_t text = gap == line.npos ? line.npos : line.find_first_not_of(' ', gap);
  return text == line.npos ? 0 : text;
}

}  // namespace

std::size_t output_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

std::string wrapped(std::string_view text, std::size_t width, std::string_view indent) {
  if (text.empty()) return {};
  std::string all;
  std::string line(indent);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool is_first = line == indent;
    if (!is_first && seen(line) + 1 + seen(word) > width) {
      all += line + '\n';
      line = indent;
    } else if (!is_first) {
      line += ' ';
    }
    line += word;
  }
  return all + line + '\n';
}

std::string wrapped_beside(std::string_view head, std::string_view text, std::size_t width) {
  std::string lines = wrapped(text, width, std::string(seen(head), ' '));
  if (lines.empty()) return std::string(head.substr(0, head.find_last_not_of(' ') + 1)) + '\n';
  return lines.replace(0, seen(head), head);
}

std::string wrapped_lines(std::string_view help, std::size_t width) {
  std::string all;
  while (!help.empty()) {
    const std::size_t end = std::min(help.find('\n'), help.size());
    const std::string_view line = help.substr(0, end);
    help.remove_prefix(std::min(end + 1, help.size()));
    const std::size_t text = seen(line) > width ? description_of(line) : 0;
    if (seen(line) <= width) {
      all += std::string(line) + '\n';
    } else if (text > 0 && text + kLeastBeside < width) {
      all += wrapped_beside(line.substr(0, text), line.substr(text), width);
    } else {
      const std::size_t indent = line.find_first_not_of(' ');
      all += wrapped(line.substr(indent), width, line.substr(0, indent));
    }
  }
  return all;
}

std::string TextTable::text(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < heads_.size(); ++column) {
    std::size_t& most = widths.emplace_back(seen(heads_[column].name));
    for (const auto& row : rows_) most = std::max(most, seen(row[column]));
  }
  std::size_t others = 2;  // all columns but the last, which begins there
  std::size_t shown = 0;
  while (shown + 1 < heads_.size() && (shown == 0 || others + widths[shown] <= width))
    others += widths[shown++] + 2;
  const bool is_whole = shown + 1 == heads_.size();
  const std::size_t last = heads_.size() - 1;
  const bool is_beside =
      is_whole && (others + widths[last] <= width || others + kLeastLast <= width);
  const auto line_of = [&](const auto& cell) {
    std::string line;
    for (std::size_t column = 0; column < shown; ++column) {
      const std::string text = cell(column);
      const std::string blanks(widths[column] - seen(text), ' ');
      line += "  " + (heads_[column].align == Align::left ? text + blanks : blanks + text);
    }
    const std::string text = cell(last);
    if (is_beside) {
      const bool is_right = heads_[last].align == Align::right;
      const std::string blanks(is_right ? widths[last] - seen(text) : 0, ' ');
      return wrapped_beside(line + "  " + blanks, text, width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n' + wrapped(text, width, kBelow);
  };
  std::string all = line_of([&](std::size_t column) { return heads_[column].name; });
  for (const auto& row : rows_) all += line_of([&](std::size_t column) { return row[column]; });
  return all;
}

}  // namespace ccoll::bench
