// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_frame.hpp"

namespace ccoll {

Result<Frame> decode(const SliceHeader& header, std::uint32_t from) {
  const auto& signature = header.signature;
  const auto kind = static_cast<Frame::Kind>(signature.op);
  const bool carries = kind == Frame::Kind::eager || kind == Frame::Kind::payload;
  // A message that waits for nothing is whole: its receiver copies as many bytes as it claims.
  const bool is_cut = kind == Frame::Kind::eager &&
                      (signature.algorithm & Frame::kRequestsToSend) == 0 &&
                      header.bytes != signature.count;
  const bool in_slots = (signature.algorithm & Frame::kInSlots) != 0;
  if (signature.kind != kSendRecv || kind > Frame::Kind::payload || is_cut ||
      (in_slots && kind != Frame::Kind::clear_to_send &&
       (signature.algorithm & Frame::kRequestsToSend) == 0) ||
      (carries ? header.bytes > signature.count : header.bytes > 0))
    return fail(ErrorKind::corrupt, "rank {} sent {} bytes that are not part of a message", from,
                header.bytes);
  return Frame{.kind = kind,
               .id = header.sequence,
               .bytes = signature.count,
               .tag = kind == Frame::Kind::clear_to_send ? 0 : signature.root,
               .slice_bytes = kind == Frame::Kind::clear_to_send ? signature.root : 0,
               .type = signature.type,
               .requests_to_send = (signature.algorithm & Frame::kRequestsToSend) != 0,
               .charged = (signature.algorithm & Frame::kCharged) != 0,
               .in_slots = in_slots};
}

}  // namespace ccoll
