// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The table for people, no wider than their terminal.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/command/columns.hpp"
#include "bench/measure/operations.hpp"
#include "bench/report/row.hpp"

namespace ccoll::bench {

/// A time is marked if the middle half of its batches is spread more than this share.
inline constexpr double kUnsteadySpread = 0.2;

/// The optional contents of a table.
struct Extras {
  bool baseline = false;
  bool device = false;
  bool skew = false;
  bool overlap = false;
  bool first = false;
  // If all rows are alike there is no column: the operation's heading shows it.
  bool types = true;
  bool reductions = true;
  bool roots = true;
  /// Columns of the terminal. If there are too few, only the other forms show all figures.
  std::size_t width = kUsualColumns;
  std::uint64_t largest = 32 << 20;  ///< in bytes, of a row
};

/// One operation's columns. Reduction and root have one only if rows differ in them.
class Table {
 public:
  Table(const Operation& operation, const Extras& extras);
  /// Names and units, two lines.
  std::string heading() const;
  std::string line(const Row& row) const;

 private:
  struct Column;
  static const Column kColumns[];
  template <typename F>
  std::string joined_line(F&& cell) const;

  std::size_t width() const;
  std::size_t width_of(const Column& column) const;

  std::vector<const Column*> columns_;
  std::size_t size_width_;
};

}  // namespace ccoll::bench
