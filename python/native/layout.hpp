// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the elements of an array lie, by its extents and strides.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace ccoll::python {

struct Dimension {
  std::int64_t extent;
  std::int64_t stride;  ///< in bytes
};

/// Rows that are equally far apart, in elements.
struct Rows {
  std::int64_t number = 1;
  std::int64_t length = 1;
  std::int64_t apart = 0;
};

/// The rows of an array that has elements; none if they are not equally far apart, or not in the
/// order of their addresses. `at(i)` is a Dimension.
template <typename At>
std::optional<Rows> rows_of(std::size_t dimensions, std::int64_t elem_bytes, const At& at) {
  Rows rows;
  // From the last dimension on: those that lie one after another are a row.
  for (std::size_t i = dimensions; i-- > 0;) {
    const Dimension each = at(i);
    if (each.extent == 1) continue;
    if (rows.number == 1 && each.stride == rows.length * elem_bytes) {
      rows.length *= each.extent;
    } else if (rows.number == 1 && each.stride % elem_bytes == 0 &&
               each.stride >= rows.length * elem_bytes) {
      rows.apart = each.stride / elem_bytes;
      rows.number = each.extent;
    } else if (rows.number > 1 && each.stride % rows.number == 0 &&
               each.stride / rows.number == rows.apart * elem_bytes) {
      rows.number *= each.extent;
    } else {
      return std::nullopt;
    }
  }
  return rows;
}

/// Whether two elements may have memory in common: not if each dimension steps over all that those
/// with smaller steps span.
inline bool may_share_memory(std::vector<Dimension> dimensions, std::int64_t elem_bytes) {
  const auto step = [](const Dimension& each) { return std::abs(each.stride); };
  std::ranges::sort(dimensions, {}, step);
  auto spanned = elem_bytes;
  for (const auto& each : dimensions) {
    if (each.extent == 1) continue;
    if (step(each) < spanned) return true;
    spanned += (each.extent - 1) * step(each);
  }
  return false;
}

}  // namespace ccoll::python
