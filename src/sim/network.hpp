// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a simulated machine is made of: nodes, links, NICs, cores, and how fast they are. A value,
/// read from a text that names the source of each number. Knows no files.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"

namespace ccoll::sim {

/// Ranks stand on the nodes in order, `ranks_per_node` on each; the last may have fewer.
///
/// A message inside a node leaves through its sender's port and enters through its receiver's; one
/// that crosses leaves through a NIC of its sender's node and enters through one of its receiver's.
/// Rank i of a node uses NIC i mod nics_per_node. Ports and NICs carry both directions at once, and
/// in each serve messages in the order in which they come.
struct Network {
  Rank ranks_per_node = 0;  ///< 0: all ranks on one node
  Rank nics_per_node = 1;
  /// Between two ranks of a node, and between nodes. `bandwidth_bytes_per_s` is one message's,
  /// `step_ns` is what each end spends on a message.
  LinkCosts inside;
  LinkCosts across;
  double port_bytes_per_s = 2.5e9;  ///< of all of a rank's messages inside its node, each direction
  double nic_bytes_per_s = 2.5e9;   ///< of one NIC, each direction
  /// Whether inside a node no wire but the ranks themselves move the bytes, as over shared memory:
  /// the sender for `inside.sender_share` of a message's time, the receiver for the rest.
  bool moved_by_ranks = false;
  /// Then: whether a slice that is lent stays where it lies, as between threads. Its sender copies
  /// nothing; who only stores it copies it, who combines it reads it.
  bool lent_in_place = false;
  double reduce_bytes_per_s = 8e9;  ///< of the output, one source added
  /// What a node's ranks take turns on; 0: each has its own.
  Rank cores_per_node = 0;
  /// Whether one thread runs all lanes of a rank, a step at a time.
  bool lanes_in_turn = true;
  std::uint32_t slots_per_link = 4;
  std::size_t slot_bytes = 128 << 10;  ///< the most that one message carries
  /// Where each number is from, by its name in the text; "not given: …" where it is a default.
  std::map<std::string, std::string, std::less<>> sources;

  /// Nodes that `size` ranks stand on.
  Rank nodes(Rank size) const { return ranks_per_node == 0 ? 1 : (size - 1) / ranks_per_node + 1; }
  friend bool operator==(const Network&, const Network&) = default;
};

/// Reads lines `name = number  # where the number is from`; empty lines and those that begin with
/// '#' say nothing. Each name once; those of docs/simulation.md. Fails with invalid_argument,
/// naming line and reason.
Result<Network> parse_network(std::string_view text);

/// What parse_network reads back as an equal Network.
std::string to_text(const Network& network);

/// The problem with `host_of` as the network has it: what algorithms that know of hosts need.
Problem placed_on(const Network& network, Problem problem);

/// What the cost model (algorithms/choosing/cost.hpp) is told of the network with `size` ranks on
/// it.
CostTable cost_table(const Network& network, Rank size);

}  // namespace ccoll::sim
