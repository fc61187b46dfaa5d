// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccoll {

/// Memory that an operation takes for one buffer: one stretch, or several, one after another.
struct BufferView {
  struct Segment {
    std::uint64_t first;  ///< elements before it
    std::byte* data;
  };

  std::byte* data = nullptr;      ///< all of it, where there are no segments
  std::vector<Segment> segments;  ///< ascending; the first begins at 0
};

}  // namespace ccoll
