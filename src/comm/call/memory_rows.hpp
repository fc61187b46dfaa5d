// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a caller's block as rows, and whether two of them have memory in common.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ccoll {

/// Rows that are equally far apart, or one row.
struct Rows {
  const std::byte* begin;
  const std::byte* end;
  std::ptrdiff_t row_bytes;
  std::ptrdiff_t stride_bytes;  ///< 0: one row
  std::int64_t first;           ///< elements of the buffer before it
};

/// Whether it is clear without a look at single rows that the two have no memory in common: they
/// are columns of one matrix, or far from each other.
inline bool are_apart(const Rows& a, const Rows& b) {
  if (a.end <= b.begin || b.end <= a.begin) return true;
  const auto stride = std::max(a.stride_bytes, b.stride_bytes);
  const auto fits = [stride](const Rows& rows) {
    return rows.stride_bytes == stride || (rows.stride_bytes == 0 && rows.row_bytes <= stride);
  };
  if (stride == 0 || !fits(a) || !fits(b)) return false;
  const auto column = ((b.begin - a.begin) % stride + stride) % stride;
  return column >= a.row_bytes && column + b.row_bytes <= stride;
}

/// `count` elements of `width` bytes as rows of `row` elements; 0: one row.
inline Rows rows_at(const std::byte* data, std::uint64_t count, std::size_t width,
                    std::uint64_t row, std::uint64_t stride, std::uint64_t first) {
  const bool is_one = row == 0 || row >= count;
  const auto row_elems = is_one ? count : row;
  const auto last = is_one ? 0 : (count / row - 1) * stride;
  return {data, data + (last + row_elems) * width, static_cast<std::ptrdiff_t>(row_elems * width),
          static_cast<std::ptrdiff_t>(is_one ? 0 : stride * width),
          static_cast<std::int64_t>(first)};
}

/// Whether holds(i, j) for all pairs whose addresses from the first to the last byte intersect.
template <typename Holds>
bool all_neighbours(const std::vector<Rows>& rows, const Holds& holds) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return rows[i].begin; });
  for (std::size_t at = 0; at < order.size(); at++) {
    const auto i = order[at];
    for (std::size_t next = at + 1; next < order.size() && rows[order[next]].begin < rows[i].end;
         next++) {
      if (!holds(i, order[next])) return false;
    }
  }
  return true;
}

}  // namespace ccoll
