// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of a simulated machine (nodes, links, NICs, cores) and their speeds. It is a value,
/// read from a text that names the source of each number, and does not open files.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"

namespace ccoll::sim {

/// Ranks are on the nodes in order, `ranks_per_node` on each; the last node may have fewer.
///
/// A message inside a node leaves through its sender's port and enters through its receiver's. A
/// message between nodes leaves through a NIC of its sender's node and enters through one of its
/// receiver's. Rank i of a node uses NIC i mod nics_per_node. Ports and NICs carry both directions
/// at once, and serve each direction's messages in the order of their arrival.
struct Network {
  Rank ranks_per_node = 0;  ///< 0: all ranks on one node
  Rank nics_per_node = 1;
  /// Between two ranks of a node, and between nodes. `bandwidth_bytes_per_s` is one message's,
  /// `step_ns` is the time that each end needs for a message.
  LinkCosts inside;
  LinkCosts across;
  double port_bytes_per_s = 2.5e9;  ///< all of a rank's messages inside its node, per direction
  double nic_bytes_per_s = 2.5e9;   ///< one NIC, per direction
  /// Whether the ranks themselves move the bytes inside a node, as over shared memory, and no wire
  /// does. The sender takes `inside.sender_share` of a message's time, the receiver the rest.
  bool moved_by_ranks = false;
  /// If so: whether a lent slice stays in place, as between threads. Its sender copies nothing; a
  /// receiver that only stores it copies it, and one that combines it reads it.
  bool lent_in_place = false;
  double reduce_bytes_per_s = 8e9;  ///< of the output, one source added
  /// Cores that a node's ranks share in turn; 0: each has its own.
  Rank cores_per_node = 0;
  /// Whether one thread runs all lanes of a rank, one step at a time.
  bool lanes_in_turn = true;
  std::uint32_t slots_per_link = 4;
  std::size_t slot_bytes = 128 << 10;  ///< limit for one message
  /// The source of each number, by its name in the text; "not given: …" for a default.
  std::map<std::string, std::string, std::less<>> sources;

  /// Number of nodes for `size` ranks.
  Rank nodes(Rank size) const { return ranks_per_node == 0 ? 1 : (size - 1) / ranks_per_node + 1; }
  friend bool operator==(const Network&, const Network&) = default;
};

/// Reads lines `name = number  # where the number is from`; empty lines and those that begin with
/// '#' are skipped. docs/simulation.md lists the names; each may occur once. Fails with
/// invalid_argument, naming line and reason.
Result<Network> parse_network(std::string_view text);

/// The text that parse_network reads back as an equal Network.
std::string to_text(const Network& network);

/// The problem with the network's `host_of`, which algorithms that know of hosts need.
Problem placed_on(const Network& network, Problem problem);

/// The cost model's table (algorithms/choosing/cost.hpp) for the network with `size` ranks.
CostTable cost_table(const Network& network, Rank size);

}  // namespace ccoll::sim
