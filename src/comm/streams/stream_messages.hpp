// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages that are to come into a stream together, and who copies between their buffers, where
/// those are memory of a device, and the host: the stream itself, before it tells that it has come
/// to them and once they are over; or, of more than fits well into memory of the host and takes its
/// time, piece by piece while messages travel, as the host orders it (device::DeviceToHost,
/// device::HostToDevice). What network cards read and write on the device is copied by nobody.

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

/// Its data.
device::MemoryRange buffer_of(const MessageOperation& operation);

class StreamMessages {
 public:
  /// At first all is copied as a whole. `make_direct`: whether cards do it instead.
  StreamMessages(std::span<const std::shared_ptr<MessageOperation>> operations,
                 const std::function<bool(MessageOperation&)>& make_direct);

  /// Of what is copied as a whole, altogether.
  std::uint64_t whole_bytes() const;
  /// The same with those of more than so many bytes copied piece by piece. (Shorter ones may be
  /// many, and sends up to the eager limit need not wait for their receives.)
  StreamMessages in_pieces(std::size_t most_whole) const;

  /// Of all of them; holds while this lives.
  device::StreamOpRequest request(std::optional<cudaStream_t> stream) const;
  /// The operations have their buffers on the host, or what copies between.
  void give(const std::shared_ptr<device::StreamOp>& stream_op) const;

 private:
  struct Buffers {
    std::vector<MessageOperation*> of;
    std::vector<device::MemoryRange> ranges;
    void add(MessageOperation& operation);
  };
  void copy_whole(MessageOperation& operation);

  Buffers whole_;
  device::Copied copied_;  ///< of those
  Buffers lifted_, landed_;
};

}  // namespace ccoll
