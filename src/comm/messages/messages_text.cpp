// SPDX-License-Identifier: Apache-2.0
// Error texts about messages that do not get through.
#include <algorithm>

#include "comm/messages/messages.hpp"
#include "core/text.hpp"
#include "engine/describe.hpp"

namespace ccoll {

std::string Messages::name_of(const MessageOperation& operation) const {
  const auto label = label_behind(operation.label);
  const auto& [from, tag] = operation.pattern;
  const auto peer = from ? fmt::format("rank {}", *from) : "any rank";
  const auto which = tag ? fmt::format("tag {}", *tag) : "any tag";
  switch (operation.what) {
    case What::send:
      return fmt::format("send to {} {} ({} bytes{}) on rank {}", peer, which, operation.bytes,
                         label, group_.rank());
    case What::recv:
      return fmt::format("recv from {} {} (a buffer of {} bytes{}) on rank {}", peer, which,
                         operation.bytes, label, group_.rank());
    case What::probe:
      break;
  }
  return fmt::format("probe from {} {}{} on rank {}", peer, which, label, group_.rank());
}

std::string Messages::standing(const MessageOperation& operation) const {
  switch (operation.stage) {
    case Stage::queued:
      return "not sent yet, because the link has no room";
    case Stage::requested:
      return "announced, but not received";
    case Stage::sending:
      return fmt::format("{} of {} bytes sent", operation.moved_bytes, operation.bytes);
    case Stage::flushing:
      return "sent, but not yet taken";
    case Stage::arriving:
      return fmt::format("{} of {} bytes received", operation.moved_bytes,
                         operation.received->bytes);
    case Stage::landing:
      return "received in full, but not yet copied to the device";
    case Stage::posted:
      break;
  }
  return "no matching message has arrived" + others_waiting(operation.pattern);
}

std::string Messages::others_waiting(const Pattern& pattern) const {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> named;
  std::size_t count = 0;
  for (const auto& channel : channels_) {
    if (pattern.from.value_or(channel->peer) != channel->peer) continue;
    for (const auto& [envelope, head, arrival] : matcher_.from(channel->peer))
      if (count++ < kMostNamed)
        named.push_back(fmt::format("rank {} tag {} with {} bytes", envelope.from, envelope.tag,
                                    envelope.bytes));
  }
  if (count == 0) return "";
  if (count > kMostNamed) named.push_back(fmt::format("{} more", count - kMostNamed));
  return fmt::format(" (others have: {})", joined(named));
}

std::vector<Rank> Messages::awaited(const MessageOperation& operation) const {
  if (operation.stage == Stage::landing) return {};
  if (operation.pattern.from) return {*operation.pattern.from};
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < group_.size(); rank++) {
    const auto* channel = channel_if_open(rank);
    if (rank != group_.rank() && (channel == nullptr || !channel->ended)) ranks.push_back(rank);
  }
  return ranks;
}

bool Messages::hears(Rank rank) const {
  const auto* channel = channel_if_open(rank);
  return rank == group_.rank() ||
         (channel != nullptr && channel->in != nullptr && channel->in->connected());
}

bool Messages::in_vain(const MessageOperation& operation,
                       const std::function<bool(Rank)>& has_left) const {
  const auto is_connected = [&](const Channel& channel) {
    switch (operation.stage) {
      case Stage::queued:
      case Stage::flushing:
        return channel.out->connected();
      case Stage::sending:
        return channel.out_bulk->connected();
      case Stage::arriving:
        if (channel.in_bulk != nullptr) return channel.in_bulk->connected();
        [[fallthrough]];
      case Stage::requested:
      case Stage::posted:
        return channel.in->connected();
      case Stage::landing:
        break;
    }
    return true;
  };
  const auto silent = [&](Rank rank) {
    const auto* channel = channel_if_open(rank);
    if (channel == nullptr) return has_left(rank);
    return (has_left(rank) || channel->ended) && !is_connected(*channel);
  };
  const auto ranks = awaited(operation);
  return !ranks.empty() && std::ranges::all_of(ranks, silent);
}

}  // namespace ccoll
