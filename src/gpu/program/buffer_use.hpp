// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a program uses the caller's buffers of one rank, from which others may be allowed to read in
/// place. Pure; knows no CUDA.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// A range of a buffer, counted from its beginning.
struct Extent {
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = 0;
  void add(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes == 0) return;
    begin = std::min(begin, offset);
    end = std::max(end, offset + bytes);
  }
  bool is_empty() const { return begin >= end; }
};

/// Arrays are for the caller's input and output, in this order.
struct BufferUse {
  std::array<Extent, 2> used;      ///< all that the rank reads and writes
  std::array<Extent, 2> lendable;  ///< all that others read if it is lent
  /// A step's sends in a call, to one receiver.
  struct Sent {
    std::size_t buffer = 0;    ///< the buffer that holds it if lent; 2: none does
    bool if_separate = false;  ///< only if input and output are apart
    std::uint64_t bytes = 0;
  };
  /// Without what all ranks see in workspaces, and what goes by words.
  std::vector<Sent> sent;
};

BufferUse use_of_buffers(const LoweredTeam& team, std::uint32_t rank);

}  // namespace ccoll::device
