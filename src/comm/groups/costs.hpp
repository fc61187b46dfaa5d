// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Costs of a communicator's links, for the cost model.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "comm/groups/tuning.hpp"
#include "net/peer_address.hpp"

namespace ccoll {

/// The slowest kind of link between any two of those ranks: a row of transports() that is `allowed`
/// (TransportChoice). All ranks find the same.
std::string_view slowest_transport(std::span<const PeerAddress> ranks, std::string_view allowed);

/// Whether both ends of its links see the same memory.
bool is_memory(std::string_view transport);

/// The host that each of those ranks is on: numbers from 0 in the order of the hosts' first ranks.
/// Empty if all are on one, or each on its own.
std::vector<std::uint32_t> hosts_of(std::span<const PeerAddress> ranks);

/// Cores per rank on the machine with the fewest per rank; below 1, ranks take turns.
double cores_per_rank(std::span<const PeerAddress> ranks);

/// Costs over that transport, with so many cores per rank; measured if `tuning` has them.
CostTable costs_over(std::string_view transport, double cores_per_rank, bool one_host,
                     const Tuning& tuning = {});

/// The same for the links between those ranks; `allowed` as above.
CostTable costs_among(std::span<const PeerAddress> ranks, std::string_view allowed,
                      double cores_per_rank, const Tuning& tuning = {});

}  // namespace ccoll
