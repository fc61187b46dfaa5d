// SPDX-License-Identifier: Apache-2.0
#include "transport/transport_set.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ccoll {
namespace {

std::size_t row_of(const TransportKind& kind) {
  return static_cast<std::size_t>(&kind - transports().data());
}

/// "; verbs: no RDMA device is here", for the transports that know more than where the ranks are.
std::string reasons_against(const TransportChoice& choice, const PeerAddress& mine,
                            const PeerAddress& theirs) {
  std::string text;
  for (const auto& kind : transports())
    if (choice.allows(kind) && kind.why_not != nullptr)
      text += fmt::format("; {}: {}", kind.name, kind.why_not(mine, theirs));
  return text;
}

}  // namespace

TransportSet::TransportSet(TransportContext context, std::string allowed)
    : context_(std::move(context)),
      allowed_(std::move(allowed)),
      choice_(TransportChoice::of(allowed_)) {
  // All are made at once: connections of peers may come before this rank opens its first link. The
  // last one is made first, because each falls back on the next.
  std::shared_ptr<Transport> next;
  for (const auto& kind : transports() | std::views::reverse) {
    const bool is_allowed = choice_.allows(kind);
    made_.push_back(kind.make(context_, is_allowed ? next : nullptr));
    if (made_.back() && is_allowed) next = made_.back();
  }
  std::ranges::reverse(made_);
}

Result<const TransportKind*> TransportSet::between(std::uint32_t peer) const {
  const auto& mine = context_.table[context_.rank];
  const auto& theirs = context_.table[peer];
  for (const auto& kind : transports()) {
    // A rank's messages to itself need no way out of the process.
    const bool is_allowed = choice_.allows(kind) || peer == context_.rank;
    if (is_allowed && kind.reaches(mine, theirs)) return &kind;
  }
  return fail(ErrorKind::unsupported,
              "transport {} does not reach rank {} from rank {}, {}{}: choose another "
              "or leave the choice to ccoll (CCOLL_TRANSPORT, transport)",
              choice_.text(), peer, context_.rank,
              mine.host == theirs.host ? "in another process" : "on another host",
              reasons_against(choice_, mine, theirs));
}

Result<const TransportKind*> TransportSet::in_use_to(std::uint32_t peer) const {
  auto kind = between(peer);
  if (!kind) return kind;
  const TransportKind* used = *kind;
  const auto of = [&](const TransportKind& row) { return made_[row_of(row)].get(); };
  for (const auto& next : transports().subspan(row_of(*used))) {
    if (&next != used && !choice_.allows(next)) continue;
    used = &next;
    if (of(next) != nullptr && !of(next)->gave_up(peer)) break;
  }
  return used;
}

Transport& TransportSet::get(const TransportKind& kind) { return *made_[row_of(kind)]; }

bool TransportSet::opens_ahead(std::uint64_t communicator, std::uint32_t peer) const {
  if (!context_.works_ahead(communicator)) return false;
  const auto kind = between(peer);
  return kind && (*kind)->may_open_ahead != nullptr && (*kind)->may_open_ahead(context_);
}

void TransportSet::accept(net::Purpose purpose, asio::ip::tcp::socket socket) {
  const auto* const kind = find_transport(purpose);
  if (kind == nullptr) return;
  const auto& transport = made_[row_of(*kind)];
  if (transport) transport->accept(std::move(socket));
}

void TransportSet::listen(const std::shared_ptr<Arrivals>& arrivals) {
  for (const auto& transport : made_)
    if (transport) transport->listen(arrivals);
}

void TransportSet::forget(std::uint64_t communicator) {
  for (const auto& transport : made_)
    if (transport) transport->forget(communicator);
}

}  // namespace ccoll
