// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that come into streams are made on contiguous memory. So the stream packs blocks that have
/// gaps between their rows (gpu/staging/packing.hpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/call/call.hpp"
#include "comm/messages/message_operation.hpp"
#include "core/result.hpp"
#include "gpu/way.hpp"

namespace ccoll {

/// For one call, or for messages that are called together.
class Packer {
 public:
  /// Gives the call contiguous memory in place of rows in a device's memory and, with `all`, of
  /// those in the host's.
  Status pack(Call& call, Rank rank, Rank size, bool all);
  /// The same for a message's rows in a device's memory.
  Status pack(MessageOperation& message);

  /// `bytes` bytes of the rank's device, for rows in those ranges; it may refuse another device's.
  using Room = std::function<Result<std::shared_ptr<std::byte>>(
      std::vector<device::MemoryRange> ranges, std::uint64_t bytes)>;
  /// Must be called once, behind pack(): calls and messages have their memory from then on. Null if
  /// nothing is packed.
  Result<std::shared_ptr<const device::Packing>> finish(const Room& room);

 private:
  /// A call's buffer of `elems` elements of `width` bytes.
  struct Buffer {
    BufferView& view;
    std::uint64_t elems;
    std::size_t width;
    bool is_written;
  };
  Status pack(const Buffer& buffer,
              const std::function<bool(const BufferView::Segment&)>& is_packed);
  /// `place` will say where the rows lie together; `rows` has the rest.
  template <typename Byte>
  Status add(device::PackedRows rows, Byte*& place);

  std::vector<device::PackedRows> rows_;
  std::vector<std::function<void(std::byte*)>> places_;  ///< each takes the memory of its rows
};

}  // namespace ccoll
