// SPDX-License-Identifier: Apache-2.0
#include "engine/links.hpp"

#include "core/log.hpp"

namespace ccoll {

TransportSet::TransportSet(TransportContext context, std::string forced)
    : context_(std::move(context)), forced_(std::move(forced)) {
  // Made at once: connections of peers may come before this rank opens its first link.
  for (const auto& kind : transports()) made_.push_back(kind.make(context_));
}

Result<const TransportKind*> TransportSet::between(std::uint32_t peer) const {
  const auto& mine = context_.table[context_.rank];
  const auto& theirs = context_.table[peer];
  for (const auto& kind : transports()) {
    // A rank's messages to itself need no way out of the process.
    const bool allowed = forced_.empty() || forced_ == kind.name || peer == context_.rank;
    if (allowed && kind.reaches(mine, theirs)) return &kind;
  }
  return fail(ErrorKind::unsupported,
              "transport {} does not reach rank {} from rank {}: choose another (CCOLL_TRANSPORT) "
              "or leave the choice to ccoll",
              forced_, peer, context_.rank);
}

Transport& TransportSet::get(const TransportKind& kind) {
  return *made_[static_cast<std::size_t>(&kind - transports().data())];
}

void TransportSet::accept(asio::ip::tcp::socket socket) {
  // Only one transport connects by this listener; the others' accept drops what is not theirs.
  if (const auto* kind = find_transport("tcp")) get(*kind).accept(std::move(socket));
}

void TransportSet::listen(const std::shared_ptr<Arrivals>& arrivals) {
  for (const auto& transport : made_) transport->listen(arrivals);
}

void TransportSet::forget(std::uint64_t communicator) {
  for (const auto& transport : made_) transport->forget(communicator);
}

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
  return link.get();
}

void LinkTable::listen(std::uint16_t lane) {
  arrivals_ = std::make_shared<Arrivals>(communicator_, transports_->context().rank, lane, waiter_);
  transports_->listen(arrivals_);
}

std::vector<std::uint32_t> LinkTable::arrived() {
  if (!arrivals_) return {};
  return arrivals_->take();
}

void LinkTable::revoke() {
  for (auto& [key, link] : senders_)
    if (link) link->revoke();
}

}  // namespace ccoll
