// SPDX-License-Identifier: Apache-2.0
// The sender's half of the protocol, and what a receiver sends back.
#include <algorithm>
#include <cstring>

#include "comm/messages/messages.hpp"
#include "comm/messages/rows.hpp"

namespace ccoll {

Status Messages::push_control(Channel& channel) {
  if (channel.has_news() && channel.out == nullptr) CCOLL_TRY(open_out(channel));
  while (channel.has_news() && channel.out->has_room()) {
    Frame frame{.kind = Frame::Kind::credit, .bytes = channel.owed};
    if (!channel.answers.empty()) {
      const auto answer = channel.answers.front();
      channel.answers.pop_front();
      frame.kind = Frame::Kind::clear_to_send;
      frame.id = answer.id;
      frame.slice_bytes = answer.slice_bytes;
      frame.in_slots = answer.in_slots;
      if (answer.completes != nullptr) channel.flushing.push_back(answer.completes);
    }
    channel.owed = 0;
    channel.out->room(0);
    channel.out->push(encode(frame, 0));
    // Progress now: once the receive is over, nobody may look after this link.
    channel.out->progress();
    moved_ = true;
  }
  return {};
}

Status Messages::push_eager_slices(Channel& channel) {
  while (!channel.queued.empty()) {
    auto& send = *channel.queued.front();
    // Credit may have come back while nobody listened. Read it before asking for room, because
    // answers to what else has come go out on this link.
    if (channel.credit < kEnvelopeBytes + head_bytes(channel, send))
      CCOLL_TRY(read_eager_slices(channel));
    if (!channel.out->has_room()) {
      moved_ |= channel.out->progress();
      if (!channel.out->has_room()) break;
    }
    CCOLL_TRY(push_eager(channel, send));
    channel.queued.pop_front();
    moved_ = true;
  }
  return {};
}

std::size_t Messages::head_bytes(const Channel& channel, const MessageOperation& send) const {
  if (send.to_host) return 0;
  if (send.bytes <= limits_.eager_bytes) return send.bytes;
  // A message that waits for its receive needs no early data if its payload is lent anyway.
  const auto* const payload_link = channel.out_bulk != nullptr ? channel.out_bulk : channel.out;
  return limits_.all_in_payload || payload_link->copies_once() ? 0 : limits_.eager_bytes;
}

SliceHeader Messages::head_of(const Channel& channel, Frame frame, std::size_t bytes) {
  frame.kind = Frame::Kind::eager;
  frame.id = channel.next_id;
  return encode(frame, bytes);
}

void Messages::count_eager(Channel& channel, const SliceHeader& head, bool charged) {
  channel.next_id++;
  if (charged) channel.credit -= kEnvelopeBytes + head.bytes;
  channel.traffic.messages_sent++;
  channel.traffic.bytes_sent += head.bytes;
}

Status Messages::push_eager(Channel& channel, MessageOperation& send) {
  const auto wanted = head_bytes(channel, send);
  const bool charged = kEnvelopeBytes + wanted <= channel.credit;
  const auto head = charged ? wanted : 0;
  const bool requests_to_send = limits_.strict || !charged || head < send.bytes;
  const auto header =
      head_of(channel,
              {.bytes = send.bytes,
               .tag = *send.pattern.tag,
               .type = static_cast<std::uint8_t>(send.type),
               .requests_to_send = requests_to_send,
               .charged = charged,
               .in_slots = requests_to_send && (send.row_bytes > 0 || send.to_host || send.direct)},
              head);
  auto* const room = channel.out->room(head);
  gather(send, 0, head, room);
  channel.out->push(header);
  count_eager(channel, header, charged);
  send.id = header.sequence;
  send.moved_bytes = head;
  send.stage = requests_to_send ? Stage::requested : Stage::flushing;
  if (requests_to_send)
    channel.requested.emplace(send.id, &send);
  else
    channel.flushing.push_back(&send);
  if (head < send.bytes && channel.out_bulk == nullptr) {
    auto link = links_.sender(channel.peer, kBulkLane);
    if (!link) return tl::unexpected(link.error());
    channel.out_bulk = *link;
  }
  return {};
}

Messages::Sent Messages::send_now(const Pattern& to, const std::byte* data, std::size_t bytes,
                                  DataType type) {
  const auto found = by_peer_.find(*to.from);
  if (found == by_peer_.end() || limits_.strict) return Sent::no;
  auto& channel = *found->second;
  auto* const out = channel.out;
  if (out == nullptr || bytes > limits_.eager_bytes || channel.credit < kEnvelopeBytes + bytes ||
      !out->connected() || out->failure() != nullptr)
    return Sent::no;
  const auto header = head_of(
      channel,
      {.bytes = bytes, .tag = *to.tag, .type = static_cast<std::uint8_t>(type), .charged = true},
      bytes);
  const auto sent = out->send(header, data);
  if (sent == SendLink::Sent::no_room) return Sent::no;
  count_eager(channel, header, true);
  if (sent == SendLink::Sent::gone) return Sent::yes;
  if (!out->drained()) out->progress();
  return out->drained() ? Sent::yes : Sent::flushing;
}

void Messages::finish(const std::shared_ptr<MessageOperation>& send) {
  auto* const channel = enlist(send);
  send->stage = Stage::flushing;
  channel->flushing.push_back(send.get());
}

Status Messages::cleared_to_send(Channel& channel, const Frame& clear_to_send) {
  const auto found = channel.requested.find(clear_to_send.id);
  if (found == channel.requested.end())
    return fail(ErrorKind::corrupt,
                "rank {} cleared message {} to send, but that message does not wait for it",
                channel.peer, clear_to_send.id);
  auto& send = *found->second;
  channel.requested.erase(found);
  if (send.moved_bytes == send.bytes) {
    complete(send);
  } else {
    send.stage = Stage::sending;
    if (clear_to_send.slice_bytes > 0) send.most_slice_bytes = clear_to_send.slice_bytes;
    if (clear_to_send.in_slots) send.copier = Copier::sender;
    const auto* const rest = send.input + send.moved_bytes;
    if (send.to_host)
      send.to_host->begin(channel.peer, rest, send.bytes);
    else if (send.row_bytes == 0)
      channel.out_bulk->announce(rest, send.bytes - send.moved_bytes, send.direct);
    channel.sending.push_back(&send);
  }
  return {};
}

Status Messages::push_payloads(Channel& channel) {
  if (channel.sending.empty()) return {};
  for (int slices = 0; !channel.sending.empty() && slices < kSlicesAtOnce; slices++) {
    auto& send = *channel.sending.front();
    // Do this without room, too: data that is copied to the host later could travel later.
    const auto next = next_of(channel, send);
    if (!next) return tl::unexpected(next.error());
    if (!channel.out_bulk->has_room()) {
      moved_ |= channel.out_bulk->progress();
      if (!channel.out_bulk->has_room()) break;
    }
    if (next->empty()) break;
    auto bytes = std::min({channel.out_bulk->good_bytes(send.bytes, send.copier), next->size(),
                           send.most_slice_bytes});
    if (send.row_bytes > 0) bytes = std::min(bytes, kSliceOfRowsBytes);
    const auto header =
        encode({.kind = Frame::Kind::payload, .id = send.id, .bytes = send.bytes}, bytes);
    if (send.row_bytes > 0) {
      gather(send, send.moved_bytes, bytes, channel.out_bulk->room(bytes));
      channel.out_bulk->push(header);
    } else {
      channel.out_bulk->lend(header, next->data(), send.copier);
    }
    if (send.to_host) send.to_host->lend(bytes);
    send.moved_bytes += bytes;
    channel.traffic.bytes_sent += bytes;
    moved_ = true;
    if (send.moved_bytes < send.bytes) continue;
    send.stage = Stage::flushing;
    channel.flushing_bulk.push_back(&send);
    channel.sending.pop_front();
  }
  if (!channel.out_bulk->drained()) moved_ |= channel.out_bulk->progress();
  return {};
}

Result<std::span<const std::byte>> Messages::next_of(Channel& channel, MessageOperation& send) {
  if (!send.to_host) return std::span(send.input + send.moved_bytes, send.bytes - send.moved_bytes);
  if (channel.out_bulk->drained()) moved_ |= send.to_host->take_back();
  CCOLL_TRY(send.to_host->lift());
  return send.to_host->lifted();
}

Status Messages::flush(Channel& channel) {
  const auto finish = [&](SendLink* link,
                          std::deque<MessageOperation*>& operations) -> const Failure* {
    if (link == nullptr) return nullptr;
    if (!link->drained()) moved_ |= link->progress();
    // Read this before drained(): a peer that has taken all may leave.
    const Failure* const failure = link->failure();
    if (operations.empty() || !link->drained()) return failure;
    for (auto* operation : operations) {
      if (operation->to_host) operation->to_host->take_back();
      end_transfer(channel, *operation);
    }
    operations.clear();
    return failure;
  };
  const Failure* const failure = finish(channel.out, channel.flushing);
  const Failure* const bulk_failure = finish(channel.out_bulk, channel.flushing_bulk);

  if (failure != nullptr) {
    for (const auto* waiting : {&channel.queued, &channel.flushing})
      if (!waiting->empty()) return lost(*waiting->front(), *failure);
    // If the peer left after connecting, its clear to send may already wait on our receive link,
    // which will report the failure. If this link failed before that, nobody else will notice: fail
    // the messages that wait on it. That includes receives, whose clear to send may be stuck here.
    if (failure->kind == ErrorKind::exhausted || !channel.out->connected()) {
      if (!channel.requested.empty()) return lost(*channel.requested.begin()->second, *failure);
      if (!channel.arriving.empty()) return lost(*channel.arriving.front(), *failure);
    }
    // A clear to send that cannot be pushed; if it was pushed, the bulk link reports the failure.
    for (const auto& answer : channel.answers)
      if (answer.completes != nullptr) return lost(*answer.completes, *failure);
    if (!channel.answers.empty() && !channel.arriving.empty())
      return lost(*channel.arriving.front(), *failure);
  }
  if (bulk_failure != nullptr)
    for (const auto* waiting : {&channel.sending, &channel.flushing_bulk})
      if (!waiting->empty()) return lost(*waiting->front(), *bulk_failure);
  return {};
}

}  // namespace ccoll
