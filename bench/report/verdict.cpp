// SPDX-License-Identifier: Apache-2.0
#include "bench/report/verdict.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/command/names.hpp"

namespace ccoll::bench {

namespace {

/// "a; b; c and 12 more": often only a subset of a large baseline is measured.
std::string some_of(std::vector<std::string> keys) {
  constexpr std::size_t kMost = 5;
  const std::size_t more = keys.size() > kMost ? keys.size() - kMost : 0;
  keys.resize(keys.size() - more);
  return joined(keys, "; ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

void Verdict::add(Row& row) {
  rows_++;
  if (row.wrong) checked_rows_++;
  if (row.wrong.value_or(0) > 0) wrong_rows_++;
  if (row.bytes > 0) {
    data_rows_++;
    busbw_sum_ += row.busbw;
  }
  if (!baseline_) return;
  row.baseline_usec = baseline_->usec_of(row);
  if (!row.baseline_usec) {
    new_rows_.push_back(row_key(row));
    return;
  }
  const double ratio = row.timing.usec / *row.baseline_usec;
  compared_++;
  log_ratio_sum_ += std::log(std::max(ratio, 1e-9));
  if (is_too_slow(ratio)) {
    slower_.push_back(fmt::format("{}: {} us, {:.2f} times the {} us of the baseline", row_key(row),
                                  figure(row.timing.usec), ratio, figure(*row.baseline_usec)));
  }
}

bool Verdict::is_good() const {
  return wrong_rows_ == 0 && slower_.empty() && !is_below_bound() && (!baseline_ || compared_ > 0);
}

std::vector<std::string> Verdict::lines() const {
  std::vector<std::string> lines = {
      fmt::format("average bus bandwidth: {} GB/s", figure(average_busbw()))};
  if (is_below_bound()) {
    lines.push_back(
        fmt::format("FAILED: that is below the {:g} GB/s of --min-busbw", bounds_.min_busbw));
  }
  if (baseline_) add_baseline_lines(lines);
  if (wrong_rows_ > 0) {
    lines.push_back(fmt::format("FAILED: {} of {} rows have wrong elements", wrong_rows_, rows_));
  } else if (rows_ > 0 && checked_rows_ == rows_) {
    lines.push_back(rows_ == 1 ? "checked: the row is exact"
                               : fmt::format("checked: all {} rows are exact", rows_));
  }
  return lines;
}

void Verdict::add_baseline_lines(std::vector<std::string>& lines) const {
  lines.push_back(fmt::format("baseline {}", baseline_->description()));
  if (compared_ == 0) {
    lines.push_back("FAILED: the baseline has none of the rows that were measured");
  } else {
    lines.push_back(fmt::format("time/old: geometric mean of {} row{} {:.2f}", compared_,
                                compared_ == 1 ? "" : "s",
                                std::exp(log_ratio_sum_ / double(compared_))));
  }
  for (const std::string& each : slower_) {
    lines.push_back(fmt::format("FAILED: {} (--tolerance {:g} %)", each, bounds_.slower_pct));
  }
  if (!new_rows_.empty()) {
    lines.push_back(fmt::format("not in the baseline: {}", some_of(new_rows_)));
  }
  if (const auto keys = baseline_->unmeasured(); !keys.empty()) {
    lines.push_back(fmt::format("only in the baseline: {}", some_of(keys)));
  }
}

}  // namespace ccoll::bench
