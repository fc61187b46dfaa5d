// SPDX-License-Identifier: Apache-2.0
// A communicator's counts, put together on request. Runs of plans are counted and multiplied;
// losses to other ranks are noted where a rank sleeps, or fails.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "comm/api/session.hpp"
#include "comm/progress/owner.hpp"

namespace ccoll {

Counters Session::counters() {
  const Owner owned(progress_);
  TrafficTable table;
  calls_.add_traffic(owned, table);
  under_way_.messages(owned).add_traffic(table);
  under_way_.links(owned).add_retries(table);

  std::map<std::pair<Rank, std::string>, PeerCounters> peers;
  const auto of = [&](Rank peer, std::string_view name) -> PeerCounters& {
    // Most links use the pair's transport, so counts for all links go there.
    auto transport = name.empty() ? self_.transport_to(peer).value_or("") : std::string(name);
    auto& found = peers[{peer, transport}];
    found.rank = static_cast<int>(peer);
    found.transport = std::move(transport);
    return found;
  };
  for (const auto& [key, traffic] : table) {
    auto& peer = of(key.first, key.second);
    peer.messages_sent += traffic.messages_sent;
    peer.bytes_sent += traffic.bytes_sent;
    peer.messages_received += traffic.messages_received;
    peer.bytes_received += traffic.bytes_received;
    peer.retries += traffic.retries;
  }
  for (const auto& [rank, loss] : record_.losses(owned).by_peer()) {
    auto& peer = of(rank, {});
    peer.waits += loss.waits;
    peer.time_lost += loss.time;
    peer.errors += loss.errors;
  }
  for (const auto& [rank, refused] : under_way_.messages(owned).refused())
    of(rank, {}).errors += refused;

  Counters counters;
  counters.collectives = under_way_.collectives(owned).next_number();
  counters.device_memory_bytes = under_way_.in_streams().held_bytes();
  if (const auto& way = under_way_.in_streams().device_way())
    counters.device_workspace_bytes = way->held_bytes();
  for (auto& [key, peer] : peers) {
    const bool any = (peer.messages_sent | peer.messages_received | peer.waits | peer.retries |
                      peer.errors) != 0;
    if (any) counters.peers.push_back(std::move(peer));
  }
  return counters;
}

}  // namespace ccoll
