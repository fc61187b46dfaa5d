// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether a run is good: every element exact, no row slower than the baseline allows, bandwidth
/// above the bound. Pure: it gets rows and returns sentences.

#include <optional>
#include <string>
#include <vector>

#include "bench/report/baseline.hpp"
#include "bench/report/row.hpp"

namespace ccoll::bench {

struct Bounds {
  double slower_pct = 10;  ///< how much longer than in the baseline a row may take
  double min_busbw = 0;    ///< least average bus bandwidth in GB/s; 0: any
};

class Verdict {
 public:
  Verdict(const Bounds& bounds, std::optional<Baseline> baseline)
      : bounds_(bounds), baseline_(std::move(baseline)) {}

  bool has_baseline() const { return baseline_.has_value(); }
  /// Fills in `row.baseline_usec` and takes the row into account.
  void add(Row& row);

  /// Over rows with data, as in nccl-tests.
  double average_busbw() const { return data_rows_ > 0 ? busbw_sum_ / double(data_rows_) : 0; }
  std::uint64_t wrong_rows() const { return wrong_rows_; }
  bool is_good() const;
  /// The lines below the table.
  std::vector<std::string> lines() const;

 private:
  bool is_too_slow(double ratio) const { return ratio > 1 + bounds_.slower_pct / 100; }
  bool is_below_bound() const {
    return bounds_.min_busbw > 0 && average_busbw() < bounds_.min_busbw;
  }
  void add_baseline_lines(std::vector<std::string>& lines) const;

  Bounds bounds_;
  std::optional<Baseline> baseline_;
  std::uint64_t rows_ = 0;
  std::uint64_t data_rows_ = 0;
  std::uint64_t checked_rows_ = 0;
  std::uint64_t wrong_rows_ = 0;
  double busbw_sum_ = 0;
  std::uint64_t compared_ = 0;
  double log_ratio_sum_ = 0;
  std::vector<std::string> slower_;
  std::vector<std::string> new_rows_;
};

}  // namespace ccoll::bench
