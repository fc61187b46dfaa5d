// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/receiving_side.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/messages/message_text.hpp"

namespace ccoll {
namespace {

/// Whether the sender has copied that slice, or not, as its receiver wants it. Over some links it
/// cannot choose, and short slices are copied in any case.
bool came_as_asked(const CopierChoice::Transfer& transfer, const ReceiveLink::View& view,
                   const std::byte* room) {
  if (view.header.bytes < CopierChoice::kLeastBytes) return true;
  const bool is_in_slot = view.data != room;
  return !view.is_mapped && is_in_slot == (transfer.copier != Copier::receiver);
}

/// How long slices may be that have no place for all of their bytes; 0: as long as the link likes.
std::uint32_t most_slice_bytes(const MessageOperation& recv) {
  if (recv.to_device) return static_cast<std::uint32_t>(recv.to_device->most_bytes());
  return recv.row_bytes > 0 ? kSliceOfRowsBytes : 0;
}

tl::unexpected<Failure> taken_back(Rank peer) {
  return fail(ErrorKind::peer_lost, "rank {} withdrew its data, because its call had failed", peer);
}

}  // namespace

ReceivingSide::ReceivingSide(Rank peer, Rank own, ReceiveLink& link, LinkTable& links,
                             PendingMessages& pending, Inbox& inbox, Landings& landings,
                             SendingSide& sending)
    : peer_(peer),
      own_(own),
      link_(link),
      links_(links),
      pending_(pending),
      inbox_(inbox),
      landings_(landings),
      sending_(sending),
      choices_(known_copy_costs()) {}

Status ReceivingSide::read_eager_slices() {
  for (int frames = 0; frames < kSlicesAtOnce; frames++) {
    if (!incoming_) CCOLL_TRY(peek());
    const auto read = read_incoming();
    if (!read) return tl::unexpected(read.error());
    if (!*read) return link_.failure() != nullptr ? ended() : Status{};
  }
  return {};
}

Result<bool> ReceivingSide::read_incoming() {
  const auto* view = incoming_ ? link_.front() : nullptr;
  if (view == nullptr) return false;
  if (!link_.begin_read()) return taken_back(peer_);
  CCOLL_TRY(read_frame(*view));
  if (!link_.pop()) return taken_back(peer_);
  incoming_.reset();
  pending_.note(true);
  return true;
}

Status ReceivingSide::peek() {
  const auto* header = link_.peek();
  if (header == nullptr) return {};
  auto frame = decode(*header, peer_);
  if (!frame) return tl::unexpected(frame.error());
  incoming_ = Incoming{*frame, nullptr};
  if (frame->kind != Frame::Kind::eager) return {};
  // Find its receive now, so that the data can be placed where it belongs.
  auto* recv = incoming_->receive = inbox_.take_receive(envelope_of(header->bytes));
  if (recv != nullptr && recv->to_device == nullptr && recv->row_bytes == 0 && header->bytes > 0)
    link_.offer(recv->output, header->bytes);
  return {};
}

Envelope ReceivingSide::envelope_of(std::size_t head_bytes) const {
  const auto& frame = incoming_->frame;
  return {.from = peer_,
          .tag = frame.tag,
          .bytes = frame.bytes,
          .id = frame.id,
          .type = frame.type,
          .requests_to_send = frame.requests_to_send,
          .in_slots = frame.in_slots,
          .charge = frame.charged ? kEnvelopeBytes + head_bytes : 0};
}

Status ReceivingSide::read_frame(const ReceiveLink::View& view) {
  const auto& frame = incoming_->frame;
  switch (frame.kind) {
    case Frame::Kind::eager:
      return arrive(envelope_of(view.header.bytes), view.data, view.header.bytes);
    case Frame::Kind::clear_to_send:
    case Frame::Kind::credit:
      if (!sending_.take_credit(frame.bytes)) break;
      if (frame.kind == Frame::Kind::clear_to_send) return sending_.cleared_to_send(frame);
      return {};
    case Frame::Kind::payload:
      break;
  }
  return fail(ErrorKind::corrupt, "rank {} sent what it had no right to send", peer_);
}

bool ReceivingSide::has_right_to(const Envelope& envelope, std::size_t head_bytes) const {
  return envelope.charge <= kUnexpectedBytes - kept_ && (head_bytes == 0 || envelope.charge > 0);
}

Status ReceivingSide::arrive(const Envelope& envelope, const std::byte* head,
                             std::size_t head_bytes) {
  if (!has_right_to(envelope, head_bytes))
    return fail(ErrorKind::corrupt, "rank {} sent more than its credit", peer_);
  count_arrival(head_bytes);
  auto* recv = incoming_->receive;
  // One may have been posted since the message was peeked at.
  if (recv == nullptr) recv = inbox_.take_receive(envelope);
  if (recv != nullptr) return take(*recv, envelope, head, head_bytes);
  kept_ += envelope.charge;
  inbox_.store(envelope, head, head_bytes);
  return {};
}

Status ReceivingSide::take(MessageOperation& recv, const Unexpected& message) {
  kept_ -= message.envelope.charge;
  return take(recv, message.envelope, message.head.data(), message.head.size());
}

bool ReceivingSide::read_credit() {
  return peek() && incoming_ && incoming_->frame.kind == Frame::Kind::credit &&
         read_incoming().value_or(false);
}

ReceivingSide::Found ReceivingSide::wait_for_message(const std::function<bool()>& keeps_polling) {
  // A slice that was peeked at earlier has its receive already.
  while (!incoming_) {
    const auto* const header = link_.peek();
    if (header == nullptr) {
      if (!keeps_polling()) return Found::nothing;
    } else if (is_whole_message(*header)) {
      return Found::message;
    } else if (!read_credit()) {
      break;
    }
  }
  return Found::another_way;
}

ReceivingSide::Found ReceivingSide::take_now(const Pattern& pattern, std::byte* data,
                                             std::size_t bytes, DataType type, Received& got,
                                             const std::function<bool()>& keeps_polling) {
  const auto suits = [&](const Envelope& envelope) {
    return !envelope.requests_to_send && envelope.bytes <= bytes &&
           envelope.bytes % size_of(type) == 0;
  };
  const auto take = [&](const Envelope& envelope, const std::byte* head) {
    if (envelope.bytes > 0) std::memcpy(data, head, envelope.bytes);
    sending_.owe(envelope.charge);
    got = received(envelope, type);
  };

  auto& matcher = inbox_.matcher();
  if (const auto waiting = matcher.find(pattern)) {
    if (!suits((*waiting)->envelope)) return Found::another_way;
    const auto message = matcher.take(waiting);
    kept_ -= message.envelope.charge;
    take(message.envelope, message.head.data());
  } else {
    if (const auto found = wait_for_message(keeps_polling); found != Found::message) return found;
    const auto* const header = link_.peek();
    const auto head_bytes = header->bytes;
    const Envelope envelope{.from = peer_,
                            .tag = header->signature.root,
                            .bytes = head_bytes,
                            .id = header->sequence,
                            .type = header->signature.type,
                            .charge = kEnvelopeBytes + head_bytes};
    if (!matches(pattern, envelope) || !suits(envelope) || !has_right_to(envelope, head_bytes))
      return Found::another_way;
    const auto* const view = link_.front();
    if (view == nullptr || !link_.begin_read()) return Found::another_way;
    take(envelope, view->data);
    count_arrival(head_bytes);
    if (!link_.pop()) return Found::another_way;
  }
  // If the link has yet to be opened, which may fail, the ordinary way will do it.
  if (sending_.has_news() && sending_.link() != nullptr) static_cast<void>(sending_.push_control());
  return Found::message;
}

Status ReceivingSide::take(MessageOperation& recv, const Envelope& envelope, const std::byte* head,
                           std::size_t head_bytes) {
  if (recv.to_device) recv.to_device->begin(peer_);
  if (head_bytes > 0 && recv.to_device)
    recv.head.assign(head, head + head_bytes);
  else if (head_bytes > 0 && head != recv.output)
    scatter(head, head_bytes, recv, 0);
  sending_.owe(envelope.charge);
  if (!envelope.requests_to_send) {
    landings_.end_transfer(recv);
    return sending_.push_control();
  }
  recv.id = envelope.id;
  recv.moved_bytes = head_bytes;
  const bool whole = head_bytes == envelope.bytes;
  if (whole)
    recv.stage = MessageOperation::Stage::flushing;
  else if (!envelope.in_slots && !recv.direct && !recv.to_device && recv.row_bytes == 0)
    begin_transfer(recv);
  // Without a place for whole slices a read would be a copy more, and a system call for each.
  const bool in_slots =
      recv.row_bytes > 0 || (recv.transfer && recv.transfer->copier != Copier::receiver);
  sending_.answer({.id = envelope.id,
                   .completes = whole ? &recv : nullptr,
                   .slice_bytes = most_slice_bytes(recv),
                   .in_slots = in_slots});
  if (!whole) {
    arriving_.push_back(&recv);
    if (payload_link_ == nullptr) {
      auto link = links_.receiver(peer_, kBulkLane);
      if (!link) return tl::unexpected(link.error());
      payload_link_ = *link;
    }
    auto* const rest = recv.output + head_bytes;
    // A payload that the host copies has a place only for each slice.
    const bool is_copied = !recv.direct && (recv.to_device || recv.row_bytes > 0);
    payload_link_->announce(is_copied ? nullptr : rest, envelope.bytes - head_bytes, recv.direct);
  }
  return sending_.push_control();
}

void ReceivingSide::begin_transfer(MessageOperation& recv) {
  using enum CopyCosts::Pattern;
  recv.choice = &choices_.of(recv.received->bytes, pending_.sends() > 0 ? both_ways : one_way);
  // The time of a transfer behind others tells nothing, so nothing is tried.
  recv.transfer = arriving_.empty() ? recv.choice->begin() : recv.choice->preferred();
}

Status ReceivingSide::read_payloads() {
  std::size_t read = 0;
  while (!arriving_.empty() && read < kReadAtOnce) {
    auto& recv = *arriving_.front();
    auto* place = recv.output + recv.moved_bytes;
    const auto* header = payload_link_->peek();
    if (header == nullptr) {
      if (const Failure* failure = payload_link_->failure()) return lost(recv, *failure, own_);
      return {};
    }
    const auto bytes = header->bytes;
    auto frame = decode(*header, peer_);
    if (!frame) return tl::unexpected(frame.error());
    if (frame->kind != Frame::Kind::payload || frame->id != recv.id || bytes == 0 ||
        bytes > recv.received->bytes - recv.moved_bytes ||
        (recv.to_device && bytes > recv.to_device->most_bytes()))
      return fail(ErrorKind::corrupt, "rank {} sent a part of another message", peer_);
    // The slice's place on the host; none if RDMA has placed it at the device.
    auto* room = place;
    if (recv.to_device && !recv.direct) room = recv.to_device->room(place, bytes);
    if (room == nullptr) return {};
    if (!recv.direct && recv.row_bytes == 0) payload_link_->offer(room, bytes);
    const auto* view = payload_link_->front();
    if (view == nullptr) {
      if (const Failure* failure = payload_link_->failure()) return lost(recv, *failure, own_);
      return {};
    }
    const bool lands = recv.to_device && view->data != place;
    if (lands && recv.direct) room = recv.to_device->room(place, bytes);
    if (room == nullptr) return {};
    if (!payload_link_->begin_read()) return lost(recv, taken_back(peer_).value(), own_);
    if (recv.transfer && !came_as_asked(*recv.transfer, *view, room))
      recv.transfer->is_timed = false;
    if (recv.row_bytes > 0)
      scatter(view->data, bytes, recv, recv.moved_bytes);
    else if (view->data != room)
      std::memcpy(room, view->data, bytes);
    if (!payload_link_->pop()) return lost(recv, taken_back(peer_).value(), own_);
    if (lands) CCOLL_TRY(recv.to_device->fill(bytes));
    recv.moved_bytes += bytes;
    read += bytes;
    traffic_.bytes_received += bytes;
    pending_.note(true);
    if (recv.moved_bytes < recv.received->bytes) continue;
    arriving_.pop_front();
    if (recv.transfer) recv.choice->end(*recv.transfer);
    landings_.end_transfer(recv);
  }
  return {};
}

Status ReceivingSide::ended() {
  has_ended_ = true;
  const auto& failure = *link_.failure();
  // Nobody knows which message it hit: do not take this for a peer that has left.
  if (failure.kind == ErrorKind::corrupt) return tl::unexpected(failure);
  const auto lost_one = [&](const MessageOperation& operation) {
    return lost(operation, failure, own_, others_waiting(inbox_.matcher(), std::array{peer_}));
  };
  if (incoming_ && incoming_->receive != nullptr) return lost_one(*incoming_->receive);
  if (const auto* recv = inbox_.matcher().one_from(peer_)) return lost_one(*recv);
  if (const auto* send = sending_.one_requested()) return lost_one(*send);
  if (const auto* probe = inbox_.probe_of(peer_)) return lost_one(*probe);
  return {};
}

}  // namespace ccoll
