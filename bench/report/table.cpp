// SPDX-License-Identifier: Apache-2.0
#include "bench/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ccoll::bench {

namespace {

std::string time_text(const Row& row) {
  return figure(row.timing.usec) + (row.timing.spread > kUnsteadySpread ? '~' : ' ');
}

std::string ratio_text(const Row& row) {
  return row.baseline_usec ? fmt::format("{:.2f}", row.timing.usec / *row.baseline_usec) : "new";
}

std::string waiting_text(const Row& row) {
  return row.wait_cpu_pct ? fmt::format("{:.1f}", *row.wait_cpu_pct) : "-";
}

std::string overlap_text(const Row& row) {
  return row.overlap_ratio ? fmt::format("{:.2f}", *row.overlap_ratio) : "-";
}

std::string first_text(const Row& row) { return row.firsts ? figure(row.firsts->first_us) : "-"; }

std::string early_text(const Row& row) { return row.firsts ? figure(row.firsts->early_us) : "-"; }

std::string putting_text(const Row& row) { return figure(row.put_cpu_us); }

std::string wrong_text(const Row& row) { return row.wrong ? fmt::format("{}", *row.wrong) : "-"; }

}  // namespace

struct Table::Column {
  enum class Shown { always, types, reduces, rooted, baseline, device, skew, overlap, first };

  const char* name;
  const char* unit;
  int width;
  std::string (*text)(const Row& row);
  Shown shown = Shown::always;
  int gives_way = 0;  ///< if there is too little room, the highest goes first; 0: never
};

const Table::Column Table::kColumns[] = {
    {"size", "(B)", 0, [](const Row& row) { return fmt::format("{}", row.bytes); }},
    {"type", "", 8, [](const Row& row) { return row.type; }, Column::Shown::types},
    {"redop", "", 7, [](const Row& row) { return row.reduce_op; }, Column::Shown::reduces},
    {"root", "", 4, [](const Row& row) { return fmt::format("{}", row.root); },
     Column::Shown::rooted},
    {"first", "(us)", 7, first_text, Column::Shown::first},
    {"2-20", "(us)", 7, early_text, Column::Shown::first},
    {"time ", "(us) ", 9, time_text},
    {"p50", "(us)", 6, [](const Row& row) { return figure(row.timing.p50_us); },
     Column::Shown::always, 2},
    {"p99", "(us)", 6, [](const Row& row) { return figure(row.timing.p99_us); },
     Column::Shown::always, 3},
    {"algbw", "(GB/s)", 6, [](const Row& row) { return figure(row.algbw); }},
    {"busbw", "(GB/s)", 6, [](const Row& row) { return figure(row.busbw); }},
    {"time", "/old", 5, ratio_text, Column::Shown::baseline},
    {"call", "cpu us", 6, putting_text, Column::Shown::device},
    {"wait", "cpu %", 5, waiting_text, Column::Shown::skew},
    {"with", "sleep", 5, overlap_text, Column::Shown::overlap},
    {"#wrong", "", 6, wrong_text},
    {"via", "", 6, [](const Row& row) { return row.transport; }, Column::Shown::always, 1},
    {"algorithm", "", 0, [](const Row& row) { return row.algorithm; }},
};

namespace {

/// The length of the longest algorithm name.
constexpr std::size_t kAlgorithmWidth = std::string_view("recursive_doubling").size();

}  // namespace

Table::Table(const Operation& operation, const Extras& extras)
    : size_width_(std::max<std::size_t>(fmt::format("{}", extras.largest).size(), 6)) {
  const auto is_shown = [&](Column::Shown shown) {
    switch (shown) {
      case Column::Shown::always:
        return true;
      case Column::Shown::types:
        return extras.types;
      case Column::Shown::reduces:
        return operation.reduces && extras.reductions;
      case Column::Shown::rooted:
        return operation.rooted && extras.roots;
      case Column::Shown::baseline:
        return extras.baseline;
      case Column::Shown::device:
        return extras.device;
      case Column::Shown::skew:
        return extras.skew;
      case Column::Shown::overlap:
        return extras.overlap;
      case Column::Shown::first:
        return extras.first;
    }
    return false;
  };
  for (const Column& column : kColumns)
    if (is_shown(column.shown)) columns_.push_back(&column);
  while (width() > extras.width) {
    const auto first = std::ranges::max_element(columns_, {}, &Column::gives_way);
    if ((*first)->gives_way == 0) break;
    columns_.erase(first);
  }
}

std::size_t Table::width_of(const Column& column) const {
  if (&column == &kColumns[0]) return size_width_;
  return static_cast<std::size_t>(column.width);
}

std::size_t Table::width() const {
  std::size_t all = kAlgorithmWidth;
  for (const Column* column : columns_) all += width_of(*column) + 1;
  return all - 1;
}

/// Right-aligned cells, the last one of any length.
template <typename F>
std::string Table::joined_line(F&& cell) const {
  std::string line;
  for (const Column* column : columns_) {
    if (!line.empty()) line += ' ';
    line += fmt::format("{:>{}}", cell(*column), width_of(*column));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string Table::heading() const {
  std::string names = joined_line([](const Column& column) { return column.name; });
  std::string units = joined_line([](const Column& column) { return column.unit; });
  names[0] = units[0] = '#';
  return fmt::format("{}\n{}\n", names, units);
}

std::string Table::line(const Row& row) const {
  return joined_line([&](const Column& column) { return column.text(row); }) + "\n";
}

}  // namespace ccoll::bench
