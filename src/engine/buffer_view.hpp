// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccoll {

/// Memory of an operation for one buffer: a single stretch, or several segments in a row.
struct BufferView {
  /// Elements that lie one after another, or in rows: then each row begins `stride_elems` behind
  /// the row before it.
  struct Segment {
    std::uint64_t first;  ///< elements of the buffer before it
    std::byte* data;
    std::uint64_t row_elems = 0;  ///< 0: no rows
    std::uint64_t stride_elems = 0;
  };

  std::byte* data = nullptr;      ///< the whole buffer, if there are no segments
  std::vector<Segment> segments;  ///< ascending; the first begins at 0
};

inline bool has_rows(const BufferView& view) {
  return std::ranges::any_of(view.segments, [](const auto& each) { return each.row_elems > 0; });
}

/// Calls visit(data, first, elems) for each stretch of contiguous memory of a segment's elements
/// [from, to), which the buffer counts. `data`: where the stretch begins; `first`: how many
/// elements of the buffer are before it; `elems`: how many it has.
template <class Visit>
void for_each_stretch(const BufferView::Segment& segment, std::uint64_t from, std::uint64_t to,
                      std::size_t elem_bytes, const Visit& visit) {
  const auto before = from - segment.first;
  if (segment.row_elems == 0) {
    if (from < to) visit(segment.data + before * elem_bytes, from, to - from);
    return;
  }
  const auto row_bytes = segment.stride_elems * elem_bytes;
  auto column = before % segment.row_elems;
  for (auto* row = segment.data + before / segment.row_elems * row_bytes; from < to;
       row += row_bytes, column = 0) {
    const auto here = std::min(to - from, segment.row_elems - column);
    visit(row + column * elem_bytes, from, here);
    from += here;
  }
}

/// The same for a whole view of `elems` elements.
template <class Visit>
void for_each_stretch(const BufferView& view, std::uint64_t elems, std::size_t elem_bytes,
                      const Visit& visit) {
  const auto& segments = view.segments;
  if (segments.empty()) return visit(view.data, std::uint64_t{0}, elems);
  for (std::size_t i = 0; i < segments.size(); i++) {
    const auto end = i + 1 < segments.size() ? segments[i + 1].first : elems;
    for_each_stretch(segments[i], segments[i].first, end, elem_bytes, visit);
  }
}

}  // namespace ccoll
