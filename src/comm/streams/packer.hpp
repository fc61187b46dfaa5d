// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Blocks with gaps between their rows, in calls that come into streams: whoever makes those knows
/// contiguous memory alone. So the stream packs the rows (gpu/staging/packing.hpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "comm/call/call.hpp"
#include "comm/messages/message_operation.hpp"
#include "core/result.hpp"
#include "gpu/way.hpp"

namespace ccoll {

class Packer {
 public:
  /// `bytes` bytes of the rank's device, for rows in `range`; it may refuse another device's.
  using Room = std::function<Result<std::shared_ptr<std::byte>>(const device::MemoryRange& range,
                                                                std::uint64_t bytes)>;
  explicit Packer(Room room) : room_(std::move(room)) {}

  /// Gives the call contiguous memory in place of rows in a device's memory and, with `all`, of
  /// those in the host's.
  Status pack(Call& call, Rank rank, Rank size, bool all);
  /// The same for a message's rows in a device's memory.
  Status pack(MessageOperation& message);

  /// Null if nothing was packed.
  std::shared_ptr<const device::Packing> made() const { return made_; }

 private:
  struct Use {
    bool is_read;
    bool is_written;
  };
  /// A call's buffer of `elems` elements of `width` bytes.
  struct Buffer {
    BufferView& view;
    std::uint64_t elems;
    std::size_t width;
    Use use;
  };
  Status pack(const Buffer& buffer,
              const std::function<bool(const BufferView::Segment&)>& is_packed);
  /// Where the rows lie together. Needs all of `packed` but that and the kind of memory.
  Result<std::byte*> together(device::PackedRows packed);

  const Room room_;
  std::shared_ptr<device::Packing> made_;
};

}  // namespace ccoll
