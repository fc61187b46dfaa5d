// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The table for people: about a hundred columns wide, whatever an operation has to say.

#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "bench/report/row.hpp"

namespace ccoll::bench {

/// Above this share the middle half of the batches lies so far apart that the time is marked.
inline constexpr double kUnsteadySpread = 0.2;

/// What a table shows because it was asked for.
struct Extras {
  bool baseline = false;
  bool device = false;
  bool skew = false;
  bool overlap = false;
};

/// One operation's columns: it has a reduction and a root where the operation does.
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

  std::vector<const Column*> columns_;
};

}  // namespace ccoll::bench
