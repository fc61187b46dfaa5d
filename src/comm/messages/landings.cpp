// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/landings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ccoll {
namespace {

/// True once all is there.
Result<bool> land(MessageOperation& recv) {
  auto& landing = *recv.to_device;
  for (std::size_t bytes = 0; recv.landed_bytes < recv.head.size(); recv.landed_bytes += bytes) {
    bytes = std::min(recv.head.size() - recv.landed_bytes, landing.most_bytes());
    auto* const room = landing.room(recv.output + recv.landed_bytes, bytes);
    if (room == nullptr) return false;
    std::memcpy(room, recv.head.data() + recv.landed_bytes, bytes);
    CCOLL_TRY(landing.fill(bytes));
  }
  CCOLL_TRY(landing.take_off());
  return landing.is_over();
}

}  // namespace

void Landings::end_transfer(MessageOperation& operation) {
  if (!operation.to_device) return pending_.complete(operation);
  operation.stage = MessageOperation::Stage::landing;
  landing_.push_back(&operation);
  pending_.note(true);
}

Status Landings::advance() {
  Status status;
  std::erase_if(landing_, [&](MessageOperation* recv) {
    const auto landed = land(*recv);
    if (!landed) status = tl::unexpected(landed.error());
    if (!landed || !*landed) return false;
    pending_.complete(*recv);
    return true;
  });
  return status;
}

}  // namespace ccoll
