// SPDX-License-Identifier: Apache-2.0
#include "comm/costs.hpp"

#include <algorithm>

#include "transport/transport.hpp"

namespace ccoll {

std::string_view slowest_transport(std::span<const PeerAddress> ranks, std::string_view forced) {
  if (!forced.empty()) return forced;
  // What reaches is an equality (of process, of host) wherever it is not everyone.
  for (const auto& kind : transports()) {
    const auto reached = [&](const PeerAddress& rank) { return kind.reaches(ranks.front(), rank); };
    if (std::ranges::all_of(ranks, reached)) return kind.name;
  }
  return transports().back().name;
}

bool is_memory(std::string_view transport) { return transport == "inproc" || transport == "shm"; }

CostTable costs_over(std::string_view transport, double cores_per_rank, bool one_host) {
  CostTable costs;
  costs.cores_per_rank = cores_per_rank;
  if (!is_memory(transport)) {
    // No wire: the kernel copies what is sent, which a cache may hold, then what is received. So
    // much that linear and tree broadcasts compare as they were measured.
    if (one_host) costs.sender_share = 0.3;
    return costs;
  }
  // Where ranks take turns on a core, the next one's turn takes a call of the scheduler.
  costs.latency_ns = cores_per_rank < 1 ? 1500 : 150;
  costs.step_ns = 120;
  costs.bandwidth_bytes_per_s = 9e9;
  costs.reduce_bytes_per_s = 12e9;
  // What stays in a core's cache between one rank's writing and another's reading; where ranks take
  // turns, each does as much as it can in its turn.
  costs.slot_bytes = cores_per_rank < 1 ? 64 << 10 : 32 << 10;
  return costs;
}

}  // namespace ccoll
