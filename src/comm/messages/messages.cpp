// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/messages.hpp"

#include <algorithm>
#include <utility>

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
    : group_(group), links_(links), limits_(limits), for_caller_(std::move(for_caller)) {
  links_.listen(kHeaderLane);
}

const Messages::Channel* Messages::channel_if_open(Rank peer) const {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : found->second;
}

void Messages::Channel::estimate(const CopyCosts& costs) {
  constexpr auto kOneWay = CopyCosts::Pattern::one_way;
  for (std::size_t i = 0; i < copier_choices.size(); i++) {
    const auto bytes = least_bytes_of(i);
    copier_choices[i].estimate(!costs.prefers_loan(kOneWay, bytes));
  }
}

Result<Messages::Channel*> Messages::channel_to(Rank peer) {
  if (const auto known = by_peer_.find(peer); known != by_peer_.end()) return known->second;
  auto channel = std::make_unique<Channel>();
  channel->peer = peer;
  auto in = links_.receiver(peer, kHeaderLane);
  if (!in) return tl::unexpected(in.error());
  channel->in = *in;
  if (const auto costs = known_copy_costs()) channel->estimate(*costs);
  // Registered only now that it is whole: a channel that is found gets used.
  auto* const made = channels_.emplace_back(std::move(channel)).get();
  by_peer_.emplace(peer, made);
  return made;
}

Status Messages::open(std::optional<Rank> peer) {
  if (peer) {
    auto channel = channel_to(*peer);
    return channel ? Status{} : tl::unexpected(channel.error());
  }
  for (const auto from : links_.arrived()) {
    const auto rank = group_.rank_of(from);
    if (!rank) continue;  // a rank of the job that has no part here
    if (auto channel = channel_to(*rank); !channel) return tl::unexpected(channel.error());
  }
  return {};
}

Status Messages::open_out(Channel& channel) {
  auto out = links_.sender(channel.peer, kHeaderLane);
  if (!out) return tl::unexpected(out.error());
  channel.out = *out;
  return {};
}

Messages::Channel* Messages::enlist(const std::shared_ptr<MessageOperation>& operation) {
  operation->position = pending_.size();
  pending_.push_back(operation);
  record_begin(*operation);
  auto* channel = operation->pattern.from ? by_peer_.at(*operation->pattern.from) : nullptr;
  if (channel != nullptr) channel->operations++;
  return channel;
}

Status Messages::post(const std::shared_ptr<MessageOperation>& operation) {
  CCOLL_TRY(open(operation->pattern.from));
  auto* channel = enlist(operation);
  switch (operation->what) {
    case What::send:
      if (channel->out == nullptr) CCOLL_TRY(open_out(*channel));
      channel->queued.push_back(operation.get());
      return {};
    case What::recv:
      operation->stage = Stage::posted;
      return receive_now(*operation);
    case What::probe:
      operation->stage = Stage::posted;
      probes_.push_back(operation.get());
      answer_probes();
      return {};
  }
  return {};
}

Result<bool> Messages::advance(Attention attention) {
  const bool everyone = attention == Attention::everyone;
  if (over_ || (pending_.empty() && !everyone)) return false;
  moved_ = false;
  const bool listen = everyone || one_for_any() != nullptr;
  if (listen) CCOLL_TRY(open(std::nullopt));
  std::size_t ended = 0;
  for (auto& channel : channels_) {
    if (channel->operations > 0 || listen) CCOLL_TRY(advance(*channel, listen));
    ended += channel->ended && channel->peer != group_.rank() ? 1 : 0;
  }
  if (ended > 0 && ended == group_.size() - 1)
    if (const auto* waiting = one_for_any())
      return fail(ErrorKind::peer_lost, "{}: all other ranks have left", name_of(*waiting));
  return moved_;
}

bool Messages::may_be_direct(const MessageOperation& operation) const {
  if (operation.bytes <= limits_.eager_bytes || !operation.pattern.from) return false;
  const auto* const channel = channel_if_open(*operation.pattern.from);
  if (channel == nullptr) return false;
  return operation.what == What::send
             ? channel->out_bulk != nullptr && channel->out_bulk->connected()
             : channel->in_bulk != nullptr && channel->in_bulk->connected();
}

Result<std::shared_ptr<const DirectMemory>> Messages::make_direct(const MessageOperation& operation,
                                                                  const ExportedMemory& memory) {
  // The link may have ended since may_be_direct() was asked.
  if (!may_be_direct(operation)) return fail(ErrorKind::aborted, "there is no link any more");
  const auto& channel = *by_peer_.at(*operation.pattern.from);
  return operation.what == What::send ? channel.out_bulk->make_direct(memory)
                                      : channel.in_bulk->make_direct(memory);
}

Status Messages::advance(Channel& channel, bool listen) {
  if (!channel.landing.empty()) CCOLL_TRY(end_landed(channel));
  if (channel.out != nullptr) {
    CCOLL_TRY(push_control(channel));
    CCOLL_TRY(push_eager_slices(channel));
    CCOLL_TRY(flush(channel));
  }
  if (channel.operations > 0 || listen) CCOLL_TRY(read_eager_slices(channel));
  // Push payloads first: a peer can read them while this rank is busy with reading for itself.
  CCOLL_TRY(push_payloads(channel));
  return read_payloads(channel);
}

const MessageOperation* Messages::one_for_any() const {
  if (const auto* recv = matcher_.one_from_any()) return recv;
  const auto probe = std::ranges::find_if(
      probes_, [](const MessageOperation* each) { return !each->pattern.from; });
  return probe == probes_.end() ? nullptr : *probe;
}

void Messages::complete(MessageOperation& operation, std::optional<Failure> failure) {
  if (operation.pattern.from) by_peer_.at(*operation.pattern.from)->operations--;
  // Keep it alive until it says that it is done.
  const auto held = std::move(pending_[operation.position]);
  if (operation.position + 1 < pending_.size()) {
    pending_[operation.position] = std::move(pending_.back());
    pending_[operation.position]->position = operation.position;
  }
  pending_.pop_back();
  record_end(*held, failure.has_value());
  if (tracing_ != nullptr && !failure && held->what != What::probe) trace(*held);
  if (failure) held->failure = for_caller_(std::move(*failure), held->label);
  held->end();
  // Set this even if nothing is left: a thread that waits for it must not sleep now.
  moved_ = true;
}

void Messages::record_begin(MessageOperation& operation) {
  if (recorder_ == nullptr || operation.what == What::probe) return;
  operation.record = recorder_->message(operation.what == What::send, operation.bytes,
                                        operation.pattern.from.value_or(FlightRecorder::kAny),
                                        operation.pattern.tag.value_or(FlightRecorder::kAny),
                                        operation.type, FlightRecorder::State::begun);
}

void Messages::record_end(const MessageOperation& operation, bool failed) {
  if (recorder_ == nullptr || operation.what == What::probe) return;
  using State = FlightRecorder::State;
  auto* const message =
      recorder_->message_ended(operation.record, failed ? State::failed : State::ended);
  if (message == nullptr || failed || !operation.received) return;
  message->peer = static_cast<Rank>(operation.received->from);
  message->tag = static_cast<std::uint32_t>(operation.received->tag);
  message->bytes = operation.received->bytes;
}

void Messages::trace(const MessageOperation& operation) {
  Tracing::Message message{.is_send = operation.what == What::send,
                           .type = operation.type,
                           .peer = operation.pattern.from.value_or(0),
                           .tag = operation.pattern.tag.value_or(0),
                           .bytes = operation.bytes,
                           .begun = Tracing::time_of(operation.begun)};
  if (const auto& received = operation.received) {
    message.peer = static_cast<Rank>(received->from);
    message.tag = static_cast<std::uint32_t>(received->tag);
    message.bytes = received->bytes;
  }
  tracing_->message(message);
}

void Messages::add_traffic(TrafficTable& table) const {
  for (const auto& [key, traffic] : past_) table[key] += traffic;
  add_channels(table);
}

void Messages::add_channels(TrafficTable& table) const {
  for (const auto& channel : channels_) {
    const auto& [sent, bytes_sent, received, bytes_received, retries] = channel->traffic;
    if (sent > 0)
      table[{channel->peer, channel->out->report().transport}] += {sent, bytes_sent, 0, 0, 0};
    if (received > 0)
      table[{channel->peer, channel->in->report().transport}] +=
          {0, 0, received, bytes_received, 0};
  }
}

void Messages::give_up(MessageOperation& probe, Failure failure) {
  std::erase(probes_, &probe);
  complete(probe, std::move(failure));
}

void Messages::end_all(const Failure& failure) {
  add_channels(past_);
  matcher_.clear();
  probes_.clear();
  channels_.clear();
  by_peer_.clear();
  end_pending(failure);
}

void Messages::end_pending(const Failure& failure) {
  over_ = true;
  for (const auto& operation : std::exchange(pending_, {})) {
    record_end(*operation, true);
    operation->failure = for_caller_(failure, operation->label);
    operation->end();
  }
}

tl::unexpected<Failure> Messages::lost(const MessageOperation& operation,
                                       const Failure& failure) const {
  auto told = failure;
  told.message =
      fmt::format("{}, {}: {}", name_of(operation), standing(operation), failure.message);
  return tl::unexpected(std::move(told));
}

}  // namespace ccoll
