// SPDX-License-Identifier: Apache-2.0
// A communicator's counts, put together on request. Runs of plans are counted and multiplied;
// losses to other ranks are noted where a rank sleeps, or fails.
#include "comm/api/session.hpp"
#include "comm/progress/owner.hpp"
#include "comm/record/peer_table.hpp"

namespace ccoll {

Counters Session::counters() {
  const Owner owned(progress_);
  TrafficTable traffic;
  calls_.add_traffic(owned, traffic);
  under_way_.messages(owned).add_traffic(traffic);
  under_way_.links(owned).add_retries(traffic);

  PeerTable table([&](Rank peer) { return self_.transport_to(peer).value_or(""); });
  table.add(traffic);
  table.add(record_.losses(owned));
  table.add_refused(under_way_.messages(owned).refused());

  Counters counters;
  counters.collectives = under_way_.collectives(owned).next_number();
  counters.device_memory_bytes = under_way_.in_streams().held_bytes();
  if (const auto& way = under_way_.in_streams().device_way())
    counters.device_workspace_bytes = way->held_bytes();
  counters.peers = table.peers();
  return counters;
}

}  // namespace ccoll
