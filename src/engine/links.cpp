// SPDX-License-Identifier: Apache-2.0
#include "engine/links.hpp"

#include "system/log.hpp"
#include "transport/transport_set.hpp"

namespace ccoll {

Result<SendLink*> LinkTable::sender(Rank peer, std::uint16_t lane) {
  auto& link = senders_[{peer, lane}];
  if (link) return link.get();
  const auto to = group_[peer];
  auto kind = transports_->between(to);
  if (!kind) return tl::unexpected(kind.error());
  const LinkId id{communicator_, transports_->context().rank, to, lane};
  auto opened = transports_->get(**kind).open_send(id, waiter_);
  if (!opened) return tl::unexpected(opened.error());
  link = std::move(*opened);
  if (const auto gone = gone_.find(peer); gone != gone_.end())
    link->peer_gone(gone->second.how, gone->second.why);
  log().debug("rank {}: opens a link to rank {}, lane {}, by {}", id.from, to, lane, (*kind)->name);
  return link.get();
}

Result<ReceiveLink*> LinkTable::receiver(Rank peer, std::uint16_t lane) {
  auto& link = receivers_[{peer, lane}];
  if (link) return link.get();
  const auto from = group_[peer];
  auto kind = transports_->between(from);
  if (!kind) return tl::unexpected(kind.error());
  const LinkId id{communicator_, from, transports_->context().rank, lane};
  auto opened = transports_->get(**kind).open_receive(id, waiter_);
  if (!opened) return tl::unexpected(opened.error());
  link = std::move(*opened);
  if (const auto gone = gone_.find(peer); gone != gone_.end())
    link->peer_gone(gone->second.how, gone->second.why);
  return link.get();
}

bool LinkTable::opens_ahead(Rank peer) const {
  return transports_->opens_ahead(communicator_, group_[peer]);
}

void LinkTable::peer_gone(Rank peer, Departure how, const Failure& why) {
  if (!gone_.try_emplace(peer, Gone{how, why}).second) return;
  const auto tell = [&](const auto& links) {
    for (auto each = links.lower_bound({peer, 0}); each != links.end(); ++each) {
      if (each->first.first != peer) return;
      if (each->second) each->second->peer_gone(how, why);
    }
  };
  tell(senders_);
  tell(receivers_);
}

void LinkTable::listen(std::uint16_t lane) {
  arrivals_ = std::make_shared<Arrivals>(communicator_, transports_->context().rank, lane, waiter_);
  transports_->listen(arrivals_);
}

std::vector<std::uint32_t> LinkTable::arrived() {
  if (!arrivals_) return {};
  return arrivals_->take();
}

std::optional<LinkTable::Unread> LinkTable::unread(
    std::uint64_t before, std::uint16_t lanes,
    const std::function<bool(Rank, const SliceHeader&)>& counts) const {
  for (const auto& [key, link] : receivers_) {
    const auto& [peer, lane] = key;
    const auto* const header = link && lane < lanes ? link->peek() : nullptr;
    if (header != nullptr && header->sequence < before && (!counts || counts(peer, *header)))
      return Unread{peer, *header};
  }
  return std::nullopt;
}

void LinkTable::add_retries(TrafficTable& table) const {
  const auto add = [&](const auto& links) {
    for (const auto& [key, link] : links) {
      const auto report = link ? link->report() : LinkReport{};
      if (report.retries > 0) table[{key.first, report.transport}].retries += report.retries;
    }
  };
  add(senders_);
  add(receivers_);
}

void LinkTable::revoke() {
  for (auto& [key, link] : senders_)
    if (link) link->begin_revoke();
  for (auto& [key, link] : senders_)
    if (link) link->revoke();
  for (auto& [key, link] : receivers_)
    if (link) link->revoke();
}

}  // namespace ccoll
