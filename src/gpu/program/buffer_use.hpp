// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a program does with the caller's buffers of one rank, of which others may be let read some
/// where it lies. Pure; knows no CUDA.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// Bytes of a buffer, from its beginning.
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

/// Arrays are of the caller's input and output, in this order.
struct BufferUse {
  std::array<Extent, 2> used;      ///< what the rank reads and writes
  std::array<Extent, 2> lendable;  ///< what others read if it is lent
  /// What the rank sends in a call, to each receiver.
  struct Sent {
    std::size_t buffer = 0;    ///< of which it is if that is lent; 2: of none
    bool if_separate = false;  ///< only if they are apart
    std::uint64_t bytes = 0;
  };
  /// But for what all ranks see in workspaces, and what goes by words.
  std::vector<Sent> sent;
};

BufferUse use_of_buffers(const LoweredTeam& team, std::uint32_t rank);

}  // namespace ccoll::device
