// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Collects the findings of a verification, up to a limit: one defect can show at every step.

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "verify/verify.hpp"

namespace ccoll::detail {

class Findings {
 public:
  explicit Findings(std::size_t limit) : limit_(limit) {}

  template <typename... Args>
  void add(FindingKind kind, fmt::format_string<Args...> format, Args&&... args) {
    if (full()) return;
    list_.push_back({kind, fmt::format(format, std::forward<Args>(args)...)});
  }

  bool empty() const { return list_.empty(); }
  bool full() const { return list_.size() >= limit_; }
  std::vector<Finding> take() { return std::move(list_); }

 private:
  std::size_t limit_;
  std::vector<Finding> list_;
};

}  // namespace ccoll::detail
