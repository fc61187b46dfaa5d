// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The measured sizes, counted like nccl-tests': bytes of the larger of a rank's input and output.
/// Pure arithmetic.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace ccoll::bench {

/// From `begin` to `end` bytes, both included, each `factor` times the one before or, where `step`
/// is not 0, `step` bytes more. `end` is always one of the sizes.
struct SizeRange {
  std::uint64_t begin = 8;
  std::uint64_t end = 32 << 20;
  std::uint64_t factor = 4;
  std::uint64_t step = 0;
  /// Continue after `begin` with powers of `factor`, so that 1K, 4K, … are among the sizes of any
  /// range.
  bool aligned = false;
};

/// The sizes in ascending order, each rounded down to a multiple of `unit` (one element, or one per
/// rank for operations over blocks), without duplicates. A range from 0 continues with one unit;
/// otherwise sizes below one unit are left out.
std::vector<std::uint64_t> size_list(const SizeRange& range, std::uint64_t unit);

/// "4096", "64K", "1M", "2G", "1T" (powers of 1024; "KiB" and "KB" mean the same).
Result<std::uint64_t> parse_size(std::string_view text);

/// 65536 is "64K", 1000 is "1000"; parse_size reads it back.
std::string short_size(std::uint64_t bytes);

}  // namespace ccoll::bench
