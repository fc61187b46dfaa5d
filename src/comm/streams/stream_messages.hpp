// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages that come into a stream together, and who copies between their device buffers and the
/// host. The stream does it before it reports that it has reached them, and once they are over.
/// Messages too large and slow for that are copied piece by piece while they travel, as the host
/// orders it (device::DeviceToHost, device::HostToDevice). Network cards need no copies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/messages/messages.hpp"
#include "gpu/way.hpp"

namespace ccoll {

/// The operation's buffer.
device::MemoryRange buffer_of(const MessageOperation& operation);

class StreamMessages {
 public:
  /// At first all are copied as a whole. `make_direct`: whether cards access the buffer instead.
  StreamMessages(std::span<const std::shared_ptr<MessageOperation>> operations,
                 const std::function<bool(MessageOperation&)>& make_direct);

  /// Bytes that are copied as a whole, altogether.
  std::uint64_t whole_bytes() const;
  /// The same, but messages of more than so many bytes are copied piece by piece. (Shorter ones may
  /// be many, and sends up to the eager limit need not wait for their receives.)
  StreamMessages in_pieces(std::size_t most_whole) const;

  /// For all of them; valid while this lives.
  device::StreamOpRequest request(std::optional<cudaStream_t> stream) const;
  /// Gives the operations their buffers on the host, or the copiers between.
  void give(const std::shared_ptr<device::StreamOp>& stream_op) const;

 private:
  struct Buffers {
    std::vector<MessageOperation*> of;
    std::vector<device::MemoryRange> ranges;
    void add(MessageOperation& operation);
  };
  void copy_whole(MessageOperation& operation);

  Buffers whole_;
  device::Copied copied_;  ///< of whole_
  Buffers lifted_, landed_;
};

}  // namespace ccoll
