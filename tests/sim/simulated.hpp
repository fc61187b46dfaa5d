// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Shared by the simulator's tests: networks of round numbers, and one call's outcome.

#include <catch2/catch.hpp>

#include "sim/simulate.hpp"

namespace ccoll::sim::test {

/// One node limited only by its links: 1 µs, and 1 GB/s, so that a byte takes a nanosecond.
inline Network plain_network() {
  Network network;
  network.lanes_in_turn = false;
  network.inside = {.latency_ns = 1000, .bandwidth_bytes_per_s = 1e9, .step_ns = 0};
  network.across = network.inside;
  network.port_bytes_per_s = 1e15;
  network.nic_bytes_per_s = 1e15;
  network.reduce_bytes_per_s = 1e15;
  return network;
}

/// Ports, NICs, threads and reductions all matter.
inline Network busy_network(Rank ranks_per_node, Rank nics = 1, bool lanes_in_turn = true) {
  Network network = plain_network();
  network.ranks_per_node = ranks_per_node;
  network.nics_per_node = nics;
  network.lanes_in_turn = lanes_in_turn;
  network.inside.latency_ns = 300;
  network.inside.step_ns = 70;
  network.inside.bandwidth_bytes_per_s = 4e9;
  network.across.step_ns = 110;
  network.port_bytes_per_s = 5e9;
  network.nic_bytes_per_s = 1.5e9;
  network.reduce_bytes_per_s = 3e9;
  return network;
}

inline Problem problem_of(Kind kind, Rank size, std::uint64_t count) {
  Problem problem;
  problem.kind = kind;
  problem.size = size;
  problem.count = kind == Kind::barrier ? 1 : count;
  return problem;
}

/// Elements have one byte.
inline Simulated simulated(const Network& network, const Problem& problem, const Choice& choice,
                           const SimulateOptions& options = {}) {
  auto result = simulate(network, placed_on(network, problem), 1, choice, options);
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  return *result;
}

}  // namespace ccoll::sim::test
