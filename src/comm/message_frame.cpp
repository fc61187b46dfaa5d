// SPDX-License-Identifier: Apache-2.0
#include "comm/message_frame.hpp"

namespace ccoll {
namespace {

constexpr std::uint8_t kWantsGrant = 1;
constexpr std::uint8_t kCharged = 2;

}  // namespace

SliceHeader encode(const Frame& frame, std::size_t payload) {
  SliceHeader header;
  header.sequence = frame.id;
  header.signature.count = frame.bytes;
  header.signature.root = frame.tag;
  header.signature.kind = kSendRecv;
  header.signature.type = frame.type;
  header.signature.op = static_cast<std::uint8_t>(frame.kind);
  header.signature.algorithm = static_cast<std::uint8_t>((frame.wants_grant ? kWantsGrant : 0) |
                                                         (frame.charged ? kCharged : 0));
  header.bytes = static_cast<std::uint32_t>(payload);
  return header;
}

Result<Frame> decode(const SliceHeader& header, std::uint32_t from) {
  const auto& signature = header.signature;
  const auto kind = static_cast<Frame::Kind>(signature.op);
  const bool carries = kind == Frame::Kind::head || kind == Frame::Kind::rest;
  // A message that waits for nothing is all there: who takes it copies as much as it says.
  const bool is_cut = kind == Frame::Kind::head && (signature.algorithm & kWantsGrant) == 0 &&
                      header.bytes != signature.count;
  if (signature.kind != kSendRecv || kind > Frame::Kind::rest || is_cut ||
      (carries ? header.bytes > signature.count : header.bytes > 0))
    return fail(ErrorKind::corrupt, "rank {} sent {} bytes that are no part of a message", from,
                header.bytes);
  return Frame{.kind = kind,
               .id = header.sequence,
               .bytes = signature.count,
               .tag = signature.root,
               .type = signature.type,
               .wants_grant = (signature.algorithm & kWantsGrant) != 0,
               .charged = (signature.algorithm & kCharged) != 0};
}

}  // namespace ccoll
