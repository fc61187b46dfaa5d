// SPDX-License-Identifier: Apache-2.0
// A communicator's counts, put together on request. Runs of plans are counted and multiplied;
// losses to other ranks are noted where a rank sleeps, or fails.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "comm/api/owner.hpp"

namespace ccoll {

std::vector<Rank> Communicator::Implementation::awaited(Owned owned,
                                                        const Work::State& work) const noexcept {
  try {
    std::vector<Rank> ranks;
    bool collective = false;
    for (const auto& operation : work.operations) {
      if (operation->done.load(std::memory_order_relaxed)) continue;
      if (operation->sort == Operation::Sort::in_stream) continue;
      if (operation->sort == Operation::Sort::collective)
        collective = true;
      else if (const auto peer = static_cast<const MessageOperation&>(*operation).pattern.from)
        ranks.push_back(*peer);
    }
    // Whichever collective it is: the first one in the queue stands in its way.
    if (const auto* first = collective ? calls_.queue(owned).started() : nullptr)
      std::ranges::copy(first->plan->standing().awaited(PlanStanding::Which::in_the_way),
                        std::back_inserter(ranks));
    return ranks;
  } catch (...) {
    // No memory: this sleep is not counted.
    return {};
  }
}

Counters Communicator::Implementation::counters() {
  const Owner owned(*this);
  TrafficTable table;
  calls_.add_traffic(owned, table);
  messages(owned).add_traffic(table);
  links_.add_retries(table);

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
  for (const auto& [rank, loss] : record_.losses().by_peer()) {
    auto& peer = of(rank, {});
    peer.waits += loss.waits;
    peer.time_lost += loss.time;
    peer.errors += loss.errors;
  }
  for (const auto& [rank, refused] : messages(owned).refused()) of(rank, {}).errors += refused;

  Counters counters;
  counters.collectives = collectives(owned).next_number();
  counters.device_memory_bytes = streams_.calls().held_bytes();
  if (const auto& way = streams_.calls().device_way())
    counters.device_workspace_bytes = way->held_bytes();
  for (auto& [key, peer] : peers) {
    const bool any = (peer.messages_sent | peer.messages_received | peer.waits | peer.retries |
                      peer.errors) != 0;
    if (any) counters.peers.push_back(std::move(peer));
  }
  return counters;
}

}  // namespace ccoll
