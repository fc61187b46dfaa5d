// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Arrival times of all messages, to draw a run in time. Each rank and window runs by itself.

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "sim/network.hpp"
#include "sim/time_queue.hpp"

namespace ccoll::sim {

/// Arrivals of the messages that one lane sends to one rank, in order.
struct Arrivals {
  Rank from = 0;
  std::uint16_t lane = 0;
  Rank to = 0;
  std::vector<Picoseconds> times;
};

/// `choice` must have one copy of the algorithm's lanes; `problem` must be placed_on the network.
/// Fails as make_system and run do.
Result<std::vector<Arrivals>> arrivals_of(const Network& network, const Problem& problem,
                                          std::size_t elem_bytes, const Choice& choice);

}  // namespace ccoll::sim
