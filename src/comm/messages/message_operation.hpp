// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One send, receive or probe under way: what its caller has given, and how far it has come.
/// Messages moves it on (messages.hpp has the stages' order).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/messages/matching.hpp"
#include "comm/progress/operation.hpp"
#include "engine/copier_choice.hpp"
#include "engine/memory_range.hpp"
#include "gpu/way.hpp"
#include "transport/link.hpp"

namespace ccoll {

struct MessageOperation final : Operation {
  MessageOperation() { sort = Sort::message; }
  /// Makes another one for the same message, which has yet to begin.
  static std::shared_ptr<MessageOperation> like(const MessageOperation& other);

  enum class What : std::uint8_t { send, recv, probe };
  enum class Stage : std::uint8_t {
    queued,     ///< send: its eager slice waits for the link's room
    requested,  ///< send: it has requested to send, clear to send is awaited
    sending,    ///< send: its payload goes out
    posted,     ///< recv, probe: no matching message has arrived
    arriving,   ///< recv: its message has begun to come
    landing,    ///< recv: all of it is here, but not all in place
    flushing,   ///< all is pushed, but the link has not taken all
  };

  What what = What::send;
  Pattern pattern;  ///< a send's names its receiver and tag
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;  ///< of the buffer
  /// If the buffer is rows with gaps between them: how long each is, and from one to the next. Such
  /// data are gathered into, and scattered from, the links' memory.
  std::uint64_t row_bytes = 0;
  std::uint64_t stride_bytes = 0;
  DataType type = DataType::uint8;
  /// The buffer's GPU memory if the bulk link of its peer reads or writes it there; null otherwise.
  std::shared_ptr<const DirectMemory> direct;
  /// For a send from GPU memory: copies it to the host once it is cleared to send. Its eager slice
  /// carries no data.
  std::shared_ptr<device::DeviceToHost> to_host;
  /// For a receive into GPU memory: copies there what does not arrive there directly.
  std::shared_ptr<device::HostToDevice> to_device;

  // The holder of the owner flag alone reaches these, by Messages.
  Stage stage = Stage::queued;
  std::uint64_t id = 0;
  std::uint64_t moved_bytes = 0;
  std::size_t most_slice_bytes = SIZE_MAX;  ///< send: of its payload, as its receiver wants it
  Copier copier = Copier::receiver;         ///< send: of its payload, as its receiver wants it
  CopierChoice* choice = nullptr;           ///< recv: of its transfer, if it has one
  std::optional<CopierChoice::Transfer> transfer;  ///< recv: of the payload, once cleared to send
  std::vector<std::byte> head;                     ///< recv: eager data that is yet to land
  std::size_t landed_bytes = 0;                    ///< recv: of `head`, on its way
  std::size_t position = 0;                        ///< in PendingMessages
  std::uint64_t record = 0;                        ///< its number for the flight recorder
};

/// Copies bytes [first, first + bytes) of a send's buffer, which may be rows with gaps between
/// them, one after another to `to`, memory of a link. `room`: made if it is needed and null.
inline void gather_to_link(const MessageOperation& send, std::uint64_t first, std::uint64_t bytes,
                           std::byte* to, std::unique_ptr<std::byte[]>& room) {
  if (bytes == 0) return;
  if (!room && send.row_bytes > 0 && send.row_bytes < kLongRowBytes)
    room = std::make_unique_for_overwrite<std::byte[]>(kGatherRoomBytes);
  const MemoryRange buffer{const_cast<std::byte*>(send.input), send.bytes, send.row_bytes,
                           send.stride_bytes};
  gather_to_link(buffer, first, bytes, to, room.get());
}

/// The reverse, to a receive's buffer.
inline void scatter(const std::byte* from, std::uint64_t bytes, const MessageOperation& recv,
                    std::uint64_t first) {
  const MemoryRange buffer{recv.output, recv.bytes, recv.row_bytes, recv.stride_bytes};
  scatter(from, bytes, buffer, first);
}

}  // namespace ccoll
