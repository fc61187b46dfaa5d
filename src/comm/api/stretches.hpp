// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "engine/buffer_view.hpp"

namespace ccoll {

/// Calls visit(data, first, count) for each stretch of memory of a view of `elems` elements: where
/// it begins, how many elements are before it, and how many it has.
template <class Visit>
void for_each_stretch(const BufferView& view, std::size_t elems, const Visit& visit) {
  const auto& segments = view.segments;
  if (segments.empty()) return visit(view.data, std::size_t{0}, elems);
  for (std::size_t i = 0; i < segments.size(); i++) {
    const auto end = i + 1 < segments.size() ? segments[i + 1].first : elems;
    visit(segments[i].data, segments[i].first, end - segments[i].first);
  }
}

}  // namespace ccoll
