// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/channel.hpp"

namespace ccoll {

Channel::Channel(Rank peer, ReceiveLink& link, const Shared& shared)
    : peer_(peer),
      operations_(shared.pending.count_with(peer)),
      landings_(shared.pending),
      sending_(peer, shared.group.rank(), shared.links, shared.limits, shared.pending, landings_),
      receiving_(peer, shared.group.rank(), link, shared.links, shared.pending, shared.inbox,
                 landings_, sending_) {}

Status Channel::advance(bool listen) {
  if (!landings_.empty()) CCOLL_TRY(landings_.advance());
  if (sending_.link() != nullptr) {
    CCOLL_TRY(sending_.push_control());
    CCOLL_TRY(push_eager_slices());
    CCOLL_TRY(sending_.flush(receiving_.one_arriving()));
  }
  if (is_in_use() || listen) CCOLL_TRY(receiving_.read_eager_slices());
  // Push payloads first: a peer can read them while this rank is busy with reading for itself.
  CCOLL_TRY(sending_.push_payloads());
  return receiving_.read_payloads();
}

Status Channel::push_eager_slices() {
  while (sending_.has_queued()) {
    // Credit may have come back while nobody listened. Read it before asking for room, because
    // answers to what else has come go out on this link.
    if (sending_.lacks_credit()) CCOLL_TRY(receiving_.read_eager_slices());
    const auto pushed = sending_.push_queued();
    if (!pushed) return tl::unexpected(pushed.error());
    if (!*pushed) break;
  }
  return {};
}

bool Channel::is_connected(MessageOperation::Stage stage) const {
  using Stage = MessageOperation::Stage;
  switch (stage) {
    case Stage::queued:
    case Stage::flushing:
      return sending_.link()->connected();
    case Stage::sending:
      return sending_.payload_link()->connected();
    case Stage::arriving:
      if (receiving_.payload_link() != nullptr) return receiving_.payload_link()->connected();
      [[fallthrough]];
    case Stage::requested:
    case Stage::posted:
      return receiving_.link().connected();
    case Stage::landing:
      break;
  }
  return true;
}

bool Channel::may_be_direct(MessageOperation::What what) const {
  if (what == MessageOperation::What::send)
    return sending_.payload_link() != nullptr && sending_.payload_link()->connected();
  return receiving_.payload_link() != nullptr && receiving_.payload_link()->connected();
}

Result<std::shared_ptr<const DirectMemory>> Channel::make_direct(MessageOperation::What what,
                                                                 const ExportedMemory& memory) {
  return what == MessageOperation::What::send ? sending_.payload_link()->make_direct(memory)
                                              : receiving_.payload_link()->make_direct(memory);
}

void Channel::add_traffic(TrafficTable& table) const {
  const auto& sent = sending_.traffic();
  if (sent.messages_sent > 0) table[{peer_, sending_.link()->report().transport}] += sent;
  const auto& received = receiving_.traffic();
  if (received.messages_received > 0)
    table[{peer_, receiving_.link().report().transport}] += received;
}

}  // namespace ccoll
