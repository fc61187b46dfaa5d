// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/costs.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/float_state.hpp"
#include "transport/transport.hpp"

namespace ccoll {

std::string_view slowest_transport(std::span<const PeerAddress> ranks, std::string_view allowed) {
  const auto choice = TransportChoice::of(allowed);
  std::string_view last;
  // To ask the first rank alone is exact where reaching is an equality (of process, of host) or
  // always true. For RDMA networks it is a guess, but the same on all ranks.
  for (const auto& kind : transports()) {
    if (!choice.allows(kind)) continue;
    const auto reached = [&](const PeerAddress& rank) { return kind.reaches(ranks.front(), rank); };
    if (std::ranges::all_of(ranks, reached)) return kind.name;
    last = kind.name;
  }
  return last;
}

bool is_memory(std::string_view transport) {
  const auto* const kind = find_transport(transport);
  return kind != nullptr && kind->is_memory;
}

std::vector<std::uint32_t> hosts_of(std::span<const PeerAddress> ranks) {
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::vector<std::uint32_t> hosts;
  hosts.reserve(ranks.size());
  for (const auto& rank : ranks) {
    const auto next = static_cast<std::uint32_t>(numbers.size());
    hosts.push_back(numbers.try_emplace(rank.host, next).first->second);
  }
  if (numbers.size() == 1 || numbers.size() == ranks.size()) hosts.clear();
  return hosts;
}

double cores_per_rank(std::span<const PeerAddress> ranks) {
  const DefaultFloatState state;  // the same on ranks whose threads round differently
  struct Machine {
    double cores = 0;
    double ranks = 0;
    // Each container may have its own limit, and ranks may be bound to the same cores.
    std::map<std::pair<std::uint64_t, std::uint16_t>, double> cores_of;  // host, its first core
  };
  std::map<std::pair<std::uint32_t, std::uint64_t>, Machine> machines;
  for (const auto& peer : ranks) {
    // If nothing is known of machines, each host is one.
    auto& machine = machines[{peer.machine, peer.machine == 0 ? peer.host : 0}];
    machine.cores = std::max<double>(machine.cores, peer.machine_cores);
    machine.ranks += 1;
    double& beside = machine.cores_of[{peer.host, peer.first_core}];
    beside = std::max<double>(beside, peer.cores);
  }
  double least = 1e9;
  for (const auto& [number, machine] : machines) {
    double cores = 0;
    for (const auto& [where, beside] : machine.cores_of) cores += beside;
    least = std::min(least, std::min(cores, machine.cores) / machine.ranks);
  }
  return least;
}

namespace {

CostTable estimates(std::string_view transport, double cores_per_rank, bool one_host) {
  CostTable costs;
  costs.cores_per_rank = cores_per_rank;
  if (!is_memory(transport)) {
    // Without a wire, the kernel copies what is sent, which a cache may hold, then what is
    // received. With this share, linear and tree broadcasts compare as they were measured.
    if (one_host) costs.links.sender_share = 0.3;
    return costs;
  }
  costs.is_memory = costs.is_memory_inside = true;
  // Oversubscribed ranks take turns on a core: the next turn costs a call of the scheduler, and
  // finds other ranks' lines and instructions in the caches. The data to be combined were often
  // written there.
  const bool oversubscribed = cores_per_rank < 1;
  costs.links.latency_ns = oversubscribed ? 2000 : 250;
  costs.links.step_ns = oversubscribed ? 200 : 120;
  costs.links.bandwidth_bytes_per_s = oversubscribed ? 9e9 : 18e9;
  costs.reduce_bytes_per_s = oversubscribed ? 24e9 : 40e9;
  // Data read from the sender's memory should take few calls of the kernel; data in slots must stay
  // in a cache. If ranks take turns, more than two have slots.
  costs.slot_bytes = oversubscribed ? 64 << 10 : 128 << 10;
  return costs;
}

/// Ports over which the lanes between any two ranks are spread, if their networks are the same.
std::uint16_t rails_among(std::span<const PeerAddress> ranks) {
  const auto least = std::ranges::min_element(ranks, {}, &PeerAddress::rails)->rails;
  return std::max<std::uint16_t>(1, std::min(least, kMostRails));
}

}  // namespace

CostTable costs_over(std::string_view transport, double cores_per_rank, bool one_host,
                     const Tuning& tuning) {
  const CostTable costs = estimates(transport, cores_per_rank, one_host);
  const auto measured = tuning.find(link_class(transport, cores_per_rank < 1, one_host));
  return with(costs, measured != tuning.end()
                         ? measured->second
                         : MeasuredCosts{costs.links, costs.reduce_bytes_per_s});
}

CostTable costs_among(std::span<const PeerAddress> ranks, std::string_view allowed,
                      double cores_per_rank, const Tuning& tuning) {
  const DefaultFloatState state;
  const auto is_near = [&](const PeerAddress& rank) { return rank.host == ranks.front().host; };
  const bool one_host = std::ranges::all_of(ranks, is_near);
  const auto transport = slowest_transport(ranks, allowed);
  CostTable costs = costs_over(transport, cores_per_rank, one_host, tuning);
  if (transport == "verbs") costs.rails = rails_among(ranks);
  // Every rank goes through the hosts in the same order.
  std::map<std::uint64_t, std::vector<PeerAddress>> by_host;
  for (const auto& rank : ranks) by_host[rank.host].push_back(rank);
  std::optional<CostTable> dearest;  // of any host
  for (const auto& [host, beside] : by_host) {
    if (beside.size() == 1) continue;
    const auto inside =
        costs_over(slowest_transport(beside, allowed), cores_per_rank, true, tuning);
    if (dearest && inside.links.latency_ns <= dearest->links.latency_ns) continue;
    dearest = inside;
  }
  const CostTable& inside = dearest ? *dearest : costs;
  costs.inside = inside.links;
  costs.is_memory_inside = inside.is_memory;
  return costs;
}

}  // namespace ccoll
