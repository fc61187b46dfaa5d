// SPDX-License-Identifier: Apache-2.0
#include "comm/record/peer_table.hpp"

namespace ccoll {

PeerCounters& PeerTable::of(Rank peer, std::string_view transport) {
  // Most links use the pair's transport, so counts for all links go there.
  auto name = transport.empty() ? transport_to_(peer) : std::string(transport);
  auto& found = peers_[{peer, name}];
  found.rank = static_cast<int>(peer);
  found.transport = std::move(name);
  return found;
}

void PeerTable::add(const TrafficTable& table) {
  for (const auto& [key, traffic] : table) {
    auto& peer = of(key.first, key.second);
    peer.messages_sent += traffic.messages_sent;
    peer.bytes_sent += traffic.bytes_sent;
    peer.messages_received += traffic.messages_received;
    peer.bytes_received += traffic.bytes_received;
    peer.retries += traffic.retries;
  }
}

void PeerTable::add(const Losses& losses) {
  for (const auto& [rank, loss] : losses.by_peer()) {
    auto& peer = of(rank, {});
    peer.waits += loss.waits;
    peer.time_lost += loss.time;
    peer.errors += loss.errors;
  }
}

void PeerTable::add_refused(const std::map<Rank, std::uint64_t>& refused) {
  for (const auto& [rank, count] : refused) of(rank, {}).errors += count;
}

std::vector<PeerCounters> PeerTable::peers() const {
  std::vector<PeerCounters> peers;
  for (const auto& [key, peer] : peers_) {
    const bool any = (peer.messages_sent | peer.messages_received | peer.waits | peer.retries |
                      peer.errors) != 0;
    if (any) peers.push_back(peer);
  }
  return peers;
}

}  // namespace ccoll
