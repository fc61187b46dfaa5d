// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The wire form of the protocol that messages.hpp describes: the headers of messages' slices.

#include "core/result.hpp"
#include "transport/link.hpp"

namespace ccoll {

struct Frame {
  enum class Kind : std::uint8_t {
    eager,          ///< a message's envelope and its first part, which may be all or nothing
    clear_to_send,  ///< the receiver's: message `id` has its buffer; credit as below
    credit,         ///< the receiver's: `bytes` of its queue are free again
    payload,        ///< on the bulk link: the next part of message `id`
  };

  /// Flags on the wire.
  static constexpr std::uint8_t kRequestsToSend = 1, kCharged = 2, kInSlots = 4;

  Kind kind = Kind::eager;
  /// A message's number among those from its sender to its receiver; 0: no message.
  std::uint64_t id = 0;
  /// Size of the whole message; or of a credit.
  std::uint64_t bytes = 0;
  std::uint32_t tag = 0;
  /// For clear to send: the longest slice of the payload; 0: as the sender likes.
  std::uint32_t slice_bytes = 0;
  std::uint8_t type = 0;          ///< the sender's DataType; only told, never compared
  bool requests_to_send = false;  ///< the sender's call waits for clear to send
  bool charged = false;           ///< the eager slice used the sender's credit
  /// For clear to send: the sender is to copy the payload to the link. For a request to send: it
  /// does so in any case.
  bool in_slots = false;
};

/// The header of a slice with `payload` bytes.
inline SliceHeader encode(const Frame& frame, std::size_t payload) {
  SliceHeader header;
  header.sequence = frame.id;
  header.signature.count = frame.bytes;
  header.signature.root = frame.kind == Frame::Kind::clear_to_send ? frame.slice_bytes : frame.tag;
  header.signature.kind = kSendRecv;
  header.signature.type = frame.type;
  header.signature.op = static_cast<std::uint8_t>(frame.kind);
  header.signature.algorithm = static_cast<std::uint8_t>(
      (frame.requests_to_send ? Frame::kRequestsToSend : 0) |
      (frame.charged ? Frame::kCharged : 0) | (frame.in_slots ? Frame::kInSlots : 0));
  header.bytes = static_cast<std::uint32_t>(payload);
  return header;
}

/// Whether such a slice is a whole message that is charged and waits for nothing.
inline bool is_whole_message(const SliceHeader& header) {
  const auto& signature = header.signature;
  return signature.kind == kSendRecv &&
         signature.op == static_cast<std::uint8_t>(Frame::Kind::eager) &&
         signature.algorithm == Frame::kCharged && header.bytes == signature.count;
}

/// Decodes a slice from rank `from`; refuses headers that no sender writes.
Result<Frame> decode(const SliceHeader& header, std::uint32_t from);

}  // namespace ccoll
