// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/inbox.hpp"

#include <string>
#include <utility>

namespace ccoll {
namespace {

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

}  // namespace

std::optional<Unexpected> Inbox::post(MessageOperation& recv) {
  recv.stage = MessageOperation::Stage::posted;
  const auto found = matcher_.find(recv.pattern);
  if (!found) {
    matcher_.post(&recv);
    return std::nullopt;
  }
  if (!settle(recv, (*found)->envelope)) return std::nullopt;
  return matcher_.take(found);
}

void Inbox::post_probe(MessageOperation& probe) {
  probe.stage = MessageOperation::Stage::posted;
  probes_.push_back(&probe);
  answer_probes();
}

MessageOperation* Inbox::take_receive(const Envelope& envelope) {
  while (auto* recv = matcher_.take_receive(envelope))
    if (settle(*recv, envelope)) return recv;
  return nullptr;
}

bool Inbox::settle(MessageOperation& recv, const Envelope& envelope) {
  pending_.name_peer(recv, envelope.from);
  recv.pattern.tag = envelope.tag;
  recv.received = received(envelope, recv.type);
  recv.stage = MessageOperation::Stage::arriving;
  auto refused = refusal(group_, recv, envelope);
  if (!refused) return true;
  refused_[envelope.from]++;
  pending_.complete(recv, std::move(*refused));
  return false;
}

void Inbox::store(const Envelope& envelope, const std::byte* head, std::size_t head_bytes) {
  matcher_.store(envelope, head, head_bytes);
  answer_probes();
}

void Inbox::answer_probes() {
  std::erase_if(probes_, [&](MessageOperation* probe) {
    const auto found = look(probe->pattern);
    if (!found) return false;
    probe->received = found;
    pending_.complete(*probe);
    return true;
  });
}

std::optional<Received> Inbox::look(const Pattern& pattern) {
  const auto found = matcher_.find(pattern);
  if (!found) return std::nullopt;
  const auto& envelope = (*found)->envelope;
  return received(envelope, static_cast<DataType>(envelope.type));
}

const MessageOperation* Inbox::one_for_any() const {
  if (const auto* recv = matcher_.one_from_any()) return recv;
  const auto probe = std::ranges::find_if(
      probes_, [](const MessageOperation* each) { return !each->pattern.from; });
  return probe == probes_.end() ? nullptr : *probe;
}

const MessageOperation* Inbox::probe_of(Rank peer) const {
  const auto probe = std::ranges::find_if(
      probes_, [&](const MessageOperation* each) { return each->pattern.from == peer; });
  return probe == probes_.end() ? nullptr : *probe;
}

void Inbox::give_up(MessageOperation& probe, Failure failure) {
  std::erase(probes_, &probe);
  pending_.complete(probe, std::move(failure));
}

void Inbox::clear() {
  matcher_.clear();
  probes_.clear();
}

}  // namespace ccoll
