// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/sending_side.hpp"

#include <algorithm>

#include "comm/messages/message_text.hpp"

namespace ccoll {

Status SendingSide::open() {
  if (link_ != nullptr) return {};
  auto link = links_.sender(peer_, kHeaderLane);
  if (!link) return tl::unexpected(link.error());
  link_ = *link;
  return {};
}

Status SendingSide::push_control() {
  if (has_news() && link_ == nullptr) CCOLL_TRY(open());
  while (has_news() && link_->has_room()) {
    Frame frame{.kind = Frame::Kind::credit, .bytes = owed_};
    if (!answers_.empty()) {
      const auto answer = answers_.front();
      answers_.pop_front();
      frame.kind = Frame::Kind::clear_to_send;
      frame.id = answer.id;
      frame.slice_bytes = answer.slice_bytes;
      frame.in_slots = answer.in_slots;
      if (answer.completes != nullptr) flushing_.push_back(answer.completes);
    }
    owed_ = 0;
    link_->room(0);
    link_->push(encode(frame, 0));
    // Progress now: once the receive is over, nobody may look after this link.
    link_->progress();
    pending_.note(true);
  }
  return {};
}

Result<bool> SendingSide::push_queued() {
  if (!link_->has_room()) {
    pending_.note(link_->progress());
    if (!link_->has_room()) return false;
  }
  CCOLL_TRY(push_eager(*queued_.front()));
  queued_.pop_front();
  pending_.note(true);
  return true;
}

std::size_t SendingSide::head_bytes(const MessageOperation& send) const {
  if (send.to_host) return 0;
  if (send.bytes <= limits_.eager_bytes) return send.bytes;
  // A message that waits for its receive needs no early data if its payload is lent anyway.
  const auto* const payload_link = payload_link_ != nullptr ? payload_link_ : link_;
  return limits_.all_in_payload || payload_link->copies_once() ? 0 : limits_.eager_bytes;
}

SliceHeader SendingSide::next_head(Frame frame, std::size_t bytes) const {
  frame.kind = Frame::Kind::eager;
  frame.id = next_id_;
  return encode(frame, bytes);
}

void SendingSide::count_eager(const SliceHeader& head, bool charged) {
  next_id_++;
  if (charged) credit_ -= kEnvelopeBytes + head.bytes;
  traffic_.messages_sent++;
  traffic_.bytes_sent += head.bytes;
}

Status SendingSide::push_eager(MessageOperation& send) {
  const auto wanted = head_bytes(send);
  const bool charged = kEnvelopeBytes + wanted <= credit_;
  const auto head = charged ? wanted : 0;
  const bool requests_to_send = limits_.strict || !charged || head < send.bytes;
  const auto header = next_head(
      {.bytes = send.bytes,
       .tag = *send.pattern.tag,
       .type = static_cast<std::uint8_t>(send.type),
       .requests_to_send = requests_to_send,
       .charged = charged,
       .in_slots = requests_to_send && (send.row_bytes > 0 || send.to_host || send.direct)},
      head);
  auto* const room = link_->room(head);
  gather_to_link(send, 0, head, room, gather_room_);
  link_->push(header);
  count_eager(header, charged);
  send.id = header.sequence;
  send.moved_bytes = head;
  send.stage =
      requests_to_send ? MessageOperation::Stage::requested : MessageOperation::Stage::flushing;
  if (requests_to_send)
    requested_.emplace(send.id, &send);
  else
    flushing_.push_back(&send);
  if (head < send.bytes && payload_link_ == nullptr) {
    auto link = links_.sender(peer_, kBulkLane);
    if (!link) return tl::unexpected(link.error());
    payload_link_ = *link;
  }
  return {};
}

SendingSide::Sent SendingSide::send_now(std::uint32_t tag, const std::byte* data, std::size_t bytes,
                                        DataType type) {
  if (limits_.strict || link_ == nullptr || bytes > limits_.eager_bytes ||
      credit_ < kEnvelopeBytes + bytes || !link_->connected() || link_->failure() != nullptr)
    return Sent::no;
  const auto header = next_head(
      {.bytes = bytes, .tag = tag, .type = static_cast<std::uint8_t>(type), .charged = true},
      bytes);
  const auto sent = link_->send(header, data);
  if (sent == SendLink::Sent::no_room) return Sent::no;
  count_eager(header, true);
  if (sent == SendLink::Sent::gone) return Sent::yes;
  if (!link_->drained()) link_->progress();
  return link_->drained() ? Sent::yes : Sent::flushing;
}

void SendingSide::finish(MessageOperation& send) {
  send.stage = MessageOperation::Stage::flushing;
  flushing_.push_back(&send);
}

bool SendingSide::take_credit(std::uint64_t bytes) {
  if (bytes > kUnexpectedBytes - credit_) return false;
  credit_ += bytes;
  return true;
}

Status SendingSide::cleared_to_send(const Frame& clear_to_send) {
  const auto found = requested_.find(clear_to_send.id);
  if (found == requested_.end())
    return fail(ErrorKind::corrupt,
                "rank {} cleared message {} to send, but that message does not wait for it", peer_,
                clear_to_send.id);
  auto& send = *found->second;
  requested_.erase(found);
  if (send.moved_bytes == send.bytes) {
    pending_.complete(send);
  } else {
    send.stage = MessageOperation::Stage::sending;
    if (clear_to_send.slice_bytes > 0) send.most_slice_bytes = clear_to_send.slice_bytes;
    if (clear_to_send.in_slots) send.copier = Copier::sender;
    const auto* const rest = send.input + send.moved_bytes;
    if (send.to_host)
      send.to_host->begin(peer_, rest, send.bytes);
    else if (send.row_bytes == 0)
      payload_link_->announce(rest, send.bytes - send.moved_bytes, send.direct);
    sending_.push_back(&send);
  }
  return {};
}

Status SendingSide::push_payloads() {
  if (sending_.empty()) return {};
  for (int slices = 0; !sending_.empty() && slices < kSlicesAtOnce; slices++) {
    auto& send = *sending_.front();
    // Do this without room, too: data that is copied to the host later could travel later.
    const auto next = next_of(send);
    if (!next) return tl::unexpected(next.error());
    if (!payload_link_->has_room()) {
      pending_.note(payload_link_->progress());
      if (!payload_link_->has_room()) break;
    }
    if (next->empty()) break;
    auto bytes = std::min(
        {payload_link_->good_bytes(send.bytes, send.copier), next->size(), send.most_slice_bytes});
    if (send.row_bytes > 0) bytes = std::min(bytes, kSliceOfRowsBytes);
    const auto header =
        encode({.kind = Frame::Kind::payload, .id = send.id, .bytes = send.bytes}, bytes);
    if (send.row_bytes > 0) {
      gather_to_link(send, send.moved_bytes, bytes, payload_link_->room(bytes), gather_room_);
      payload_link_->push(header);
    } else {
      payload_link_->lend(header, next->data(), send.copier);
    }
    if (send.to_host) send.to_host->lend(bytes);
    send.moved_bytes += bytes;
    traffic_.bytes_sent += bytes;
    pending_.note(true);
    if (send.moved_bytes < send.bytes) continue;
    send.stage = MessageOperation::Stage::flushing;
    flushing_payload_.push_back(&send);
    sending_.pop_front();
  }
  if (!payload_link_->drained()) pending_.note(payload_link_->progress());
  return {};
}

Result<std::span<const std::byte>> SendingSide::next_of(MessageOperation& send) {
  if (!send.to_host) return std::span(send.input + send.moved_bytes, send.bytes - send.moved_bytes);
  if (payload_link_->drained()) pending_.note(send.to_host->take_back());
  CCOLL_TRY(send.to_host->lift());
  return send.to_host->lifted();
}

Status SendingSide::flush(const MessageOperation* arriving) {
  const auto complete = [&](SendLink* link,
                            std::deque<MessageOperation*>& operations) -> const Failure* {
    if (link == nullptr) return nullptr;
    if (!link->drained()) pending_.note(link->progress());
    // Read this before drained(): a peer that has taken all may leave.
    const Failure* const failure = link->failure();
    if (operations.empty() || !link->drained()) return failure;
    for (auto* operation : operations) {
      if (operation->to_host) operation->to_host->take_back();
      landings_.end_transfer(*operation);
    }
    operations.clear();
    return failure;
  };
  const Failure* const failure = complete(link_, flushing_);
  const Failure* const payload_failure = complete(payload_link_, flushing_payload_);
  if (failure != nullptr)
    if (const auto* hit = one_hit(*failure, arriving)) return lost(*hit, *failure, own_);
  if (payload_failure != nullptr)
    for (const auto* waiting : {&sending_, &flushing_payload_})
      if (!waiting->empty()) return lost(*waiting->front(), *payload_failure, own_);
  return {};
}

const MessageOperation* SendingSide::one_hit(const Failure& failure,
                                             const MessageOperation* arriving) const {
  for (const auto* waiting : {&queued_, &flushing_})
    if (!waiting->empty()) return waiting->front();
  // If the peer left after connecting, its clear to send may already wait on our receive link,
  // which will report the failure. If this link failed before that, nobody else will notice: fail
  // the messages that wait on it. That includes receives, whose clear to send may be stuck here.
  if (failure.kind == ErrorKind::exhausted || !link_->connected()) {
    if (const auto* send = one_requested()) return send;
    if (arriving != nullptr) return arriving;
  }
  // A clear to send that cannot be pushed; if it was pushed, the bulk link reports the failure.
  for (const auto& answer : answers_)
    if (answer.completes != nullptr) return answer.completes;
  return answers_.empty() ? nullptr : arriving;
}

}  // namespace ccoll
