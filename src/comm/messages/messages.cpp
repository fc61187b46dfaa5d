// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/messages.hpp"

#include <algorithm>

#include "comm/messages/message_text.hpp"

namespace ccoll {

std::shared_ptr<MessageOperation> MessageOperation::like(const MessageOperation& other) {
  auto made = std::make_shared<MessageOperation>();
  made->label = other.label;
  made->received = other.received;
  made->what = other.what;
  made->pattern = other.pattern;
  made->input = other.input;
  made->output = other.output;
  made->bytes = other.bytes;
  made->row_bytes = other.row_bytes;
  made->stride_bytes = other.stride_bytes;
  made->type = other.type;
  made->direct = other.direct;
  made->to_host = other.to_host;
  made->to_device = other.to_device;
  return made;
}

Messages::Messages(const Group& group, LinkTable& links, const Limits& limits, ForCaller for_caller)
    : group_(group),
      links_(links),
      limits_(limits),
      pending_(std::move(for_caller)),
      inbox_(group_, pending_) {
  links_.listen(kHeaderLane);
  open_ahead();
}

void Messages::open_ahead() {
  for (Rank peer = 0; peer < group_.size(); peer++) {
    if (peer == group_.rank() || !links_.opens_ahead(peer)) continue;
    const auto channel = channel_to(peer);
    if (!channel) continue;
    for (const auto lane : {kHeaderLane, kBulkLane}) {
      static_cast<void>(links_.sender(peer, lane));
      static_cast<void>(links_.receiver(peer, lane));
    }
    static_cast<void>((*channel)->sending().open());
  }
}

Result<Channel*> Messages::channel_to(Rank peer) {
  if (auto* const known = channel_if_open(peer)) return known;
  const auto in = links_.receiver(peer, kHeaderLane);
  if (!in) return tl::unexpected(in.error());
  auto channel = std::make_unique<Channel>(
      peer, **in, Channel::Shared{group_, links_, limits_, pending_, inbox_});
  by_peer_.resize(std::max<std::size_t>(by_peer_.size(), peer + 1));
  // Registered only now that it is whole: a channel that is found gets used.
  return by_peer_[peer] = channels_.emplace_back(std::move(channel)).get();
}

Status Messages::open_all() {
  for (const auto from : links_.arrived()) {
    const auto rank = group_.rank_of(from);
    if (!rank) continue;  // a rank of the job that has no part here
    if (auto channel = channel_to(*rank); !channel) return tl::unexpected(channel.error());
  }
  return {};
}

Status Messages::post(const std::shared_ptr<MessageOperation>& operation) {
  const auto& from = operation->pattern.from;
  if (from)
    CCOLL_TRY(channel_to(*from));
  else
    CCOLL_TRY(open_all());
  pending_.begin(operation);
  switch (operation->what) {
    case What::send: {
      auto& sending = by_peer_[*from]->sending();
      CCOLL_TRY(sending.open());
      sending.queue(*operation);
      return {};
    }
    case What::recv:
      if (const auto message = inbox_.post(*operation))
        return by_peer_[message->envelope.from]->receiving().take(*operation, *message);
      return {};
    case What::probe:
      inbox_.post_probe(*operation);
      return {};
  }
  return {};
}

Result<std::optional<Received>> Messages::look(const Pattern& pattern) {
  if (pattern.from)
    CCOLL_TRY(channel_to(*pattern.from));
  else
    CCOLL_TRY(open_all());
  for (auto& channel : channels_)
    if (pattern.from.value_or(channel->peer()) == channel->peer())
      CCOLL_TRY(channel->receiving().read_eager_slices());
  return inbox_.look(pattern);
}

Result<bool> Messages::advance(Attention attention) {
  const bool everyone = attention == Attention::everyone;
  if (over_ || (!busy() && !everyone)) return false;
  pending_.begin_round();
  const bool listen = everyone || inbox_.one_for_any() != nullptr;
  if (listen) CCOLL_TRY(open_all());
  std::size_t ended = 0;
  for (auto& channel : channels_) {
    if (channel->is_in_use() || listen) CCOLL_TRY(channel->advance(listen));
    ended += channel->receiving().has_ended() && channel->peer() != group_.rank() ? 1 : 0;
  }
  if (ended > 0 && ended == group_.size() - 1)
    if (const auto* waiting = inbox_.one_for_any())
      return fail(ErrorKind::peer_lost, "{}: all other ranks have left", name_of(*waiting));
  return pending_.has_moved();
}

void Messages::finish(const std::shared_ptr<MessageOperation>& send) {
  pending_.begin(send);
  by_peer_[*send->pattern.from]->sending().finish(*send);
}

bool Messages::may_be_direct(const MessageOperation& operation) const {
  if (operation.bytes <= limits_.eager_bytes || !operation.pattern.from) return false;
  const auto* const channel = channel_if_open(*operation.pattern.from);
  return channel != nullptr && channel->may_be_direct(operation.what);
}

Result<std::shared_ptr<const DirectMemory>> Messages::make_direct(const MessageOperation& operation,
                                                                  const ExportedMemory& memory) {
  // The link may have ended since may_be_direct() was asked.
  if (!may_be_direct(operation)) return fail(ErrorKind::aborted, "there is no link any more");
  return by_peer_[*operation.pattern.from]->make_direct(operation.what, memory);
}

void Messages::add_traffic(TrafficTable& table) const {
  for (const auto& [key, traffic] : past_) table[key] += traffic;
  for (const auto& channel : channels_) channel->add_traffic(table);
}

void Messages::end_all(const Failure& failure) {
  for (const auto& channel : channels_) channel->add_traffic(past_);
  inbox_.clear();
  channels_.clear();
  by_peer_.clear();
  end_pending(failure);
}

void Messages::end_pending(const Failure& failure) {
  over_ = true;
  pending_.end_all(failure);
}

std::string Messages::name_of(const MessageOperation& operation) const {
  return ccoll::name_of(operation, group_.rank());
}

std::string Messages::standing(const MessageOperation& operation) const {
  if (operation.stage != Stage::posted) return standing_of(operation, "");
  std::vector<Rank> ranks;
  for (const auto& channel : channels_)
    if (operation.pattern.from.value_or(channel->peer()) == channel->peer())
      ranks.push_back(channel->peer());
  return standing_of(operation, others_waiting(inbox_.matcher(), ranks));
}

std::vector<Rank> Messages::awaited(const MessageOperation& operation) const {
  if (operation.stage == Stage::landing) return {};
  if (operation.pattern.from) return {*operation.pattern.from};
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < group_.size(); rank++) {
    const auto* const channel = channel_if_open(rank);
    const bool may_send = channel == nullptr || !channel->receiving().has_ended();
    if (rank != group_.rank() && may_send) ranks.push_back(rank);
  }
  return ranks;
}

bool Messages::hears(Rank rank) const {
  const auto* const channel = channel_if_open(rank);
  return rank == group_.rank() || (channel != nullptr && channel->receiving().link().connected());
}

bool Messages::in_vain(const MessageOperation& operation,
                       const std::function<bool(Rank)>& has_left) const {
  const auto silent = [&](Rank rank) {
    const auto* const channel = channel_if_open(rank);
    if (channel == nullptr) return has_left(rank);
    return (has_left(rank) || channel->receiving().has_ended()) &&
           !channel->is_connected(operation.stage);
  };
  const auto ranks = awaited(operation);
  return !ranks.empty() && std::ranges::all_of(ranks, silent);
}

}  // namespace ccoll
