// SPDX-License-Identifier: Apache-2.0
// The receiver's half of the protocol.
#include <algorithm>
#include <cstring>

#include "comm/messages/messages.hpp"
#include "comm/messages/rows.hpp"

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

/// The reason why that message does not fit that receive, if any.
std::optional<Failure> refusal(const Group& group, const MessageOperation& recv,
                               const Envelope& envelope) {
  const auto refuse = [&](const std::string& why) {
    return Failure{ErrorKind::mismatch,
                   fmt::format("recv from rank {} tag {} on rank {}: the message has {} bytes, {}",
                               envelope.from, envelope.tag, group.rank(), envelope.bytes, why),
                   group.job_rank(envelope.from)};
  };
  if (envelope.bytes > recv.bytes) return refuse(fmt::format("the buffer {}", recv.bytes));
  if (envelope.bytes % size_of(recv.type) != 0)
    return refuse(fmt::format("which are not whole elements of {}", to_string(recv.type)));
  return std::nullopt;
}

Received received(const Envelope& envelope, DataType type) {
  const auto width = std::max<std::size_t>(size_of(type), 1);
  return {static_cast<int>(envelope.from), static_cast<int>(envelope.tag), envelope.bytes / width,
          envelope.bytes};
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

Status Messages::read_eager_slices(Channel& channel) {
  for (int frames = 0; frames < kSlicesAtOnce; frames++) {
    if (!channel.incoming) CCOLL_TRY(peek(channel));
    const auto read = read_incoming(channel);
    if (!read) return tl::unexpected(read.error());
    if (!*read) return channel.in->failure() != nullptr ? ended(channel) : Status{};
  }
  return {};
}

Result<bool> Messages::read_incoming(Channel& channel) {
  const auto* view = channel.incoming ? channel.in->front() : nullptr;
  if (view == nullptr) return false;
  if (!channel.in->begin_read()) return taken_back(channel.peer);
  CCOLL_TRY(read_frame(channel, *view));
  if (!channel.in->pop()) return taken_back(channel.peer);
  channel.incoming.reset();
  moved_ = true;
  return true;
}

Status Messages::peek(Channel& channel) {
  const auto* header = channel.in->peek();
  if (header == nullptr) return {};
  auto frame = decode(*header, channel.peer);
  if (!frame) return tl::unexpected(frame.error());
  channel.incoming = Incoming{*frame, nullptr};
  if (frame->kind != Frame::Kind::eager) return {};
  // Find its receive now, so that the data can be placed where it belongs.
  auto* recv = channel.incoming->receive = take_receive(envelope_of(channel, header->bytes));
  if (recv != nullptr && recv->to_device == nullptr && recv->row_bytes == 0 && header->bytes > 0)
    channel.in->offer(recv->output, header->bytes);
  return {};
}

Envelope Messages::envelope_of(const Channel& channel, std::size_t head_bytes) {
  const auto& frame = channel.incoming->frame;
  return {.from = channel.peer,
          .tag = frame.tag,
          .bytes = frame.bytes,
          .id = frame.id,
          .type = frame.type,
          .requests_to_send = frame.requests_to_send,
          .in_slots = frame.in_slots,
          .charge = frame.charged ? kEnvelopeBytes + head_bytes : 0};
}

Status Messages::read_frame(Channel& channel, const ReceiveLink::View& view) {
  const auto& frame = channel.incoming->frame;
  switch (frame.kind) {
    case Frame::Kind::eager:
      return arrive(channel, envelope_of(channel, view.header.bytes), view.data, view.header.bytes);
    case Frame::Kind::clear_to_send:
    case Frame::Kind::credit:
      if (frame.bytes > kUnexpectedBytes - channel.credit) break;
      channel.credit += frame.bytes;
      if (frame.kind == Frame::Kind::clear_to_send) return cleared_to_send(channel, frame);
      return {};
    case Frame::Kind::payload:
      break;
  }
  return fail(ErrorKind::corrupt, "rank {} sent what it had no right to send", channel.peer);
}

bool Messages::has_right_to(const Channel& channel, const Envelope& envelope,
                            std::size_t head_bytes) {
  return envelope.charge <= kUnexpectedBytes - channel.kept &&
         (head_bytes == 0 || envelope.charge > 0);
}

Status Messages::arrive(Channel& channel, const Envelope& envelope, const std::byte* head,
                        std::size_t head_bytes) {
  if (!has_right_to(channel, envelope, head_bytes))
    return fail(ErrorKind::corrupt, "rank {} sent more than its credit", channel.peer);
  count_arrival(channel, head_bytes);
  auto* recv = channel.incoming->receive;
  // One may have been posted since the message was peeked at.
  if (recv == nullptr) recv = take_receive(envelope);
  if (recv != nullptr) return take(channel, *recv, envelope, head, head_bytes);
  matcher_.store(envelope, head, head_bytes);
  channel.kept += envelope.charge;
  answer_probes();
  return {};
}

MessageOperation* Messages::take_receive(const Envelope& envelope) {
  while (auto* recv = matcher_.take_receive(envelope)) {
    settle(*recv, envelope);
    auto refused = refusal(group_, *recv, envelope);
    if (!refused) return recv;
    refused_[envelope.from]++;
    complete(*recv, std::move(*refused));
  }
  return nullptr;
}

void Messages::settle(MessageOperation& recv, const Envelope& envelope) {
  if (!recv.pattern.from) by_peer_.at(envelope.from)->operations++;
  recv.pattern = {envelope.from, envelope.tag};
  recv.received = received(envelope, recv.type);
  recv.stage = Stage::arriving;
}

Status Messages::receive_now(MessageOperation& recv) {
  const auto found = matcher_.find(recv.pattern);
  if (!found) {
    matcher_.post(&recv);
    return {};
  }
  const auto& envelope = (*found)->envelope;
  auto& channel = *by_peer_.at(envelope.from);
  settle(recv, envelope);
  if (auto refused = refusal(group_, recv, envelope)) {
    refused_[envelope.from]++;
    complete(recv, std::move(*refused));
    return {};
  }
  const auto message = matcher_.take(found);
  channel.kept -= message.envelope.charge;
  return take(channel, recv, message.envelope, message.head.data(), message.head.size());
}

bool Messages::read_credit(Channel& channel) {
  return peek(channel) && channel.incoming && channel.incoming->frame.kind == Frame::Kind::credit &&
         read_incoming(channel).value_or(false);
}

Messages::Found Messages::wait_for_message(Channel& channel,
                                           const std::function<bool()>& keeps_polling) {
  // A slice that was peeked at earlier has its receive already.
  while (!channel.incoming) {
    const auto* const header = channel.in->peek();
    if (header == nullptr) {
      if (!keeps_polling()) return Found::nothing;
    } else if (is_whole_message(*header)) {
      return Found::message;
    } else if (!read_credit(channel)) {
      break;
    }
  }
  return Found::another_way;
}

Messages::Found Messages::take_now(const Pattern& from, std::byte* data, std::size_t bytes,
                                   std::size_t most, DataType type, Received& got,
                                   const std::function<bool()>& keeps_polling) {
  const auto known = by_peer_.find(*from.from);
  if (known == by_peer_.end()) return Found::another_way;
  auto& channel = *known->second;
  const auto suits = [&](const Envelope& envelope) {
    return !envelope.requests_to_send && envelope.bytes <= std::min(bytes, most) &&
           envelope.bytes % size_of(type) == 0;
  };
  const auto take = [&](const Envelope& envelope, const std::byte* head) {
    if (envelope.bytes > 0) std::memcpy(data, head, envelope.bytes);
    channel.owed += envelope.charge;
    got = received(envelope, type);
  };

  if (const auto waiting = matcher_.find(from)) {
    if (!suits((*waiting)->envelope)) return Found::another_way;
    const auto message = matcher_.take(waiting);
    channel.kept -= message.envelope.charge;
    take(message.envelope, message.head.data());
  } else {
    if (const auto found = wait_for_message(channel, keeps_polling); found != Found::message)
      return found;
    const auto* const header = channel.in->peek();
    const auto head_bytes = header->bytes;
    const Envelope envelope{.from = channel.peer,
                            .tag = header->signature.root,
                            .bytes = head_bytes,
                            .id = header->sequence,
                            .type = header->signature.type,
                            .charge = kEnvelopeBytes + head_bytes};
    if (!matches(from, envelope) || !suits(envelope) ||
        !has_right_to(channel, envelope, head_bytes))
      return Found::another_way;
    const auto* const view = channel.in->front();
    if (view == nullptr || !channel.in->begin_read()) return Found::another_way;
    take(envelope, view->data);
    count_arrival(channel, head_bytes);
    if (!channel.in->pop()) return Found::another_way;
  }
  // If the link has yet to be opened, which may fail, the ordinary way will do it.
  if (channel.has_news() && channel.out != nullptr) static_cast<void>(push_control(channel));
  return Found::message;
}

Status Messages::take(Channel& channel, MessageOperation& recv, const Envelope& envelope,
                      const std::byte* head, std::size_t head_bytes) {
  if (recv.to_device) recv.to_device->begin(channel.peer);
  if (head_bytes > 0 && recv.to_device)
    recv.head.assign(head, head + head_bytes);
  else if (head_bytes > 0 && head != recv.output)
    scatter(head, head_bytes, recv, 0);
  channel.owed += envelope.charge;
  if (!envelope.requests_to_send) {
    end_transfer(channel, recv);
    return push_control(channel);
  }
  recv.id = envelope.id;
  recv.moved_bytes = head_bytes;
  const bool whole = head_bytes == envelope.bytes;
  if (whole)
    recv.stage = Stage::flushing;
  else if (!envelope.in_slots && !recv.direct && !recv.to_device && recv.row_bytes == 0)
    begin_transfer(channel, recv);
  channel.answers.push_back(
      {.id = envelope.id,
       .completes = whole ? &recv : nullptr,
       .slice_bytes = most_slice_bytes(recv),
       .in_slots = recv.transfer && recv.transfer->copier != Copier::receiver});
  if (!whole) {
    channel.arriving.push_back(&recv);
    if (channel.in_bulk == nullptr) {
      auto link = links_.receiver(channel.peer, kBulkLane);
      if (!link) return tl::unexpected(link.error());
      channel.in_bulk = *link;
    }
    auto* const rest = recv.output + head_bytes;
    // A payload that the host copies has a place only for each slice.
    const bool is_copied = !recv.direct && (recv.to_device || recv.row_bytes > 0);
    channel.in_bulk->announce(is_copied ? nullptr : rest, envelope.bytes - head_bytes, recv.direct);
  }
  return push_control(channel);
}

void Messages::begin_transfer(Channel& channel, MessageOperation& recv) {
  auto& choice = channel.copier_choice(recv.received->bytes);
  // The time of a transfer behind others tells nothing, so nothing is tried.
  recv.transfer = channel.arriving.empty() ? choice.begin() : choice.preferred();
}

Status Messages::read_payloads(Channel& channel) {
  std::size_t read = 0;
  while (!channel.arriving.empty() && read < kReadAtOnce) {
    auto& recv = *channel.arriving.front();
    auto* place = recv.output + recv.moved_bytes;
    const auto* header = channel.in_bulk->peek();
    if (header == nullptr) {
      if (const Failure* failure = channel.in_bulk->failure()) return lost(recv, *failure);
      return {};
    }
    const auto bytes = header->bytes;
    auto frame = decode(*header, channel.peer);
    if (!frame) return tl::unexpected(frame.error());
    if (frame->kind != Frame::Kind::payload || frame->id != recv.id || bytes == 0 ||
        bytes > recv.received->bytes - recv.moved_bytes ||
        (recv.to_device && bytes > recv.to_device->most_bytes()))
      return fail(ErrorKind::corrupt, "rank {} sent a part of another message", channel.peer);
    // The slice's place on the host; none if RDMA has placed it at the device.
    auto* room = place;
    if (recv.to_device && !recv.direct) room = recv.to_device->room(place, bytes);
    if (room == nullptr) return {};
    if (!recv.direct && recv.row_bytes == 0) channel.in_bulk->offer(room, bytes);
    const auto* view = channel.in_bulk->front();
    if (view == nullptr) {
      if (const Failure* failure = channel.in_bulk->failure()) return lost(recv, *failure);
      return {};
    }
    const bool lands = recv.to_device && view->data != place;
    if (lands && recv.direct) room = recv.to_device->room(place, bytes);
    if (room == nullptr) return {};
    if (!channel.in_bulk->begin_read()) return taken_back(channel.peer);
    if (recv.transfer && !came_as_asked(*recv.transfer, *view, room))
      recv.transfer->is_timed = false;
    if (recv.row_bytes > 0)
      scatter(view->data, bytes, recv, recv.moved_bytes);
    else if (view->data != room)
      std::memcpy(room, view->data, bytes);
    if (!channel.in_bulk->pop()) return taken_back(channel.peer);
    if (lands) CCOLL_TRY(recv.to_device->fill(bytes));
    recv.moved_bytes += bytes;
    read += bytes;
    channel.traffic.bytes_received += bytes;
    moved_ = true;
    if (recv.moved_bytes < recv.received->bytes) continue;
    channel.arriving.pop_front();
    if (recv.transfer) channel.copier_choice(recv.received->bytes).end(*recv.transfer);
    end_transfer(channel, recv);
  }
  return {};
}

void Messages::end_transfer(Channel& channel, MessageOperation& recv) {
  if (!recv.to_device) return complete(recv);
  recv.stage = Stage::landing;
  channel.landing.push_back(&recv);
  moved_ = true;
}

Status Messages::end_landed(Channel& channel) {
  Status status;
  std::erase_if(channel.landing, [&](MessageOperation* recv) {
    const auto landed = land(*recv);
    if (!landed) status = tl::unexpected(landed.error());
    if (!landed || !*landed) return false;
    complete(*recv);
    return true;
  });
  return status;
}

Result<bool> Messages::land(MessageOperation& recv) {
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

Status Messages::ended(Channel& channel) {
  channel.ended = true;
  const auto& failure = *channel.in->failure();
  // Nobody knows which message it hit: do not take this for a peer that has left.
  if (failure.kind == ErrorKind::corrupt) return tl::unexpected(failure);
  if (channel.incoming && channel.incoming->receive != nullptr)
    return lost(*channel.incoming->receive, failure);
  if (const auto* recv = matcher_.one_from(channel.peer)) return lost(*recv, failure);
  if (!channel.requested.empty()) return lost(*channel.requested.begin()->second, failure);
  for (const auto* probe : probes_)
    if (probe->pattern.from == channel.peer) return lost(*probe, failure);
  return {};
}

void Messages::answer_probes() {
  std::erase_if(probes_, [&](MessageOperation* probe) {
    const auto found = matcher_.find(probe->pattern);
    if (!found) return false;
    const auto& envelope = (*found)->envelope;
    probe->received = received(envelope, static_cast<DataType>(envelope.type));
    complete(*probe);
    return true;
  });
}

Result<std::optional<Received>> Messages::look(const Pattern& pattern) {
  CCOLL_TRY(open(pattern.from));
  for (auto& channel : channels_)
    if (pattern.from.value_or(channel->peer) == channel->peer)
      CCOLL_TRY(read_eager_slices(*channel));
  const auto found = matcher_.find(pattern);
  if (!found) return std::nullopt;
  const auto& envelope = (*found)->envelope;
  return received(envelope, static_cast<DataType>(envelope.type));
}

}  // namespace ccoll
