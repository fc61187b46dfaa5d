// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A message's bytes between its buffer, which may be rows with gaps between them, and contiguous
/// memory.

#include "comm/messages/message_operation.hpp"
#include "engine/memory_range.hpp"

namespace ccoll {

/// Bytes [first, first + bytes) of a send's buffer, one after another at `to`.
inline void gather(const MessageOperation& send, std::uint64_t first, std::uint64_t bytes,
                   std::byte* to) {
  if (bytes == 0) return;
  const MemoryRange buffer{const_cast<std::byte*>(send.input), send.bytes, send.row_bytes,
                           send.stride_bytes};
  gather(buffer, first, bytes, to);
}

/// The reverse, of a receive's buffer.
inline void scatter(const std::byte* from, std::uint64_t bytes, const MessageOperation& recv,
                    std::uint64_t first) {
  const MemoryRange buffer{recv.output, recv.bytes, recv.row_bytes, recv.stride_bytes};
  scatter(from, bytes, buffer, first);
}

}  // namespace ccoll
