// SPDX-License-Identifier: Apache-2.0

/// Leaders: one rank of each host acts for it, and the leaders form a binary tree.
///
/// On the way up a leader combines, in one pass, the data of its host's ranks and of the leaders
/// below it. On the way down it hands the result to both. Each buffer crosses between hosts once
/// per edge of the tree, however many ranks a host has. That takes ⌈log2 h⌉ hops between hosts, not
/// ⌈log2 n⌉: the best there is for short buffers. A leader is its host's first rank; the root leads
/// its own. If there is one host, all ranks talk to rank 0 or the root.
///
/// Rounds, h hosts: 1 + ⌈log2 h⌉ each way; all_reduce and barrier go up and down.
/// Bytes sent between hosts by a leader: up to 3 × size for all_reduce, 2 × size for broadcast,
/// size for reduce. Any number of ranks on each host, in any order.
/// Source: N. T. Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
/// collective operation performance", IPDPS (2000).
/// Drawings: leaders_all_reduce_5.txt, leaders_broadcast_5.txt, leaders_reduce_5.txt

#include <algorithm>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"
#include "algorithms/hosts.hpp"
#include "algorithms/trees/tree_lanes.hpp"

namespace ccoll {
namespace {

class Leaders {
 public:
  explicit Leaders(const Problem& problem) : hosts_(problem), root_(problem.root) {}

  const Hosts& hosts() const { return hosts_; }
  Rank root_host() const { return hosts_.host_of(root_); }
  Rank leader(Rank host) const { return host == root_host() ? root_ : hosts_.members(host)[0]; }
  /// A host's place in the tree of hosts, which begins at the root's.
  TreeNode host_node(Rank host) const {
    TreeNode node = binary_tree(behind(host, root_host(), hosts_.count()), hosts_.count());
    if (node.parent) node.parent = ahead(*node.parent, root_host(), hosts_.count());
    for (Rank& child : node.children) child = ahead(child, root_host(), hosts_.count());
    return node;
  }
  TreeNode node(Rank rank) const {
    const Rank host = hosts_.host_of(rank);
    if (rank != leader(host)) return {.parent = leader(host)};
    const TreeNode of_host = host_node(host);
    TreeNode node;
    if (of_host.parent) node.parent = leader(*of_host.parent);
    // Leaders come first: their data have the longer way.
    for (const Rank below : of_host.children) node.children.push_back(leader(below));
    const auto beside = hosts_.others_beside(rank);
    node.children.insert(node.children.end(), beside.begin(), beside.end());
    return node;
  }

 private:
  Hosts hosts_;
  Rank root_;
};

}  // namespace

Program leaders_all_reduce(const Problem& problem, Rank rank) {
  return all_reduce_over(Leaders(problem).node(rank), problem, rank);
}

Program leaders_reduce(const Problem& problem, Rank rank) {
  return one_lane(problem, rank, 1, lane_up(Leaders(problem).node(rank), 0, 0));
}

Program leaders_broadcast(const Problem& problem, Rank rank) {
  return one_lane(problem, rank, 1, lane_down(Leaders(problem).node(rank), 0, 0, input(0)));
}

Theory leaders_theory(const Problem& problem) {
  Theory theory;
  if (moves_nothing(problem)) return theory;
  const Leaders leaders(problem);
  const Hosts& hosts = leaders.hosts();
  const bool up = problem.kind != Kind::broadcast;
  const bool down = problem.kind != Kind::reduce;
  const std::uint64_t ways = up && down ? 2 : 1;
  const std::uint64_t count = problem.count;

  std::uint64_t height = 0;
  std::uint64_t most_below = 0;
  std::uint64_t most_hosts_below = 0;
  std::uint64_t most_messages = 0;
  Across across;
  for (Rank host = 0; host < hosts.count(); ++host) {
    const TreeNode node = leaders.host_node(host);
    const std::uint64_t beside = hosts.size(host) - 1;
    const std::uint64_t below = node.children.size();
    std::uint64_t hops = beside > 0 ? 1 : 0;
    for (auto above = node.parent; above; above = leaders.host_node(*above).parent) ++hops;
    height = std::max(height, hops);
    most_below = std::max(most_below, beside + below);
    most_hosts_below = std::max(most_hosts_below, below);
    const std::uint64_t to_parent = up && node.parent ? 1 : 0;
    most_messages = std::max(most_messages, to_parent + (down ? beside + below : 0));
    across.busiest.messages = std::max(across.busiest.messages, to_parent + (down ? below : 0));
    const std::uint64_t again = repeated(count, down ? beside + below : 0);
    const std::uint64_t crossing_again = repeated(count, down ? below : 0);
    theory.busiest.elems_repeated = std::max(theory.busiest.elems_repeated, again);
    theory.total.elems_repeated += again;
    across.busiest.elems_repeated = std::max(across.busiest.elems_repeated, crossing_again);
    across.total.elems_repeated += crossing_again;
  }
  // Any other rank sends one message up.
  if (up) most_messages = std::max<std::uint64_t>(most_messages, 1);
  theory.depth = height * ways;
  theory.busiest.messages = most_messages;
  theory.busiest.elems_sent = most_messages * count;
  theory.total.messages = ways * (problem.size - 1);
  theory.total.elems_sent = theory.total.messages * count;
  across.depth = tree_height(hosts.count()) * ways;
  across.busiest.elems_sent = across.busiest.messages * count;
  across.total.messages = ways * (hosts.count() - 1);
  across.total.elems_sent = across.total.messages * count;
  theory.across = across;
  if (up) {
    theory.roundings = static_cast<std::uint32_t>(height);
    theory.across->busiest.elems_reduced = most_hosts_below * count;
    theory.across->total.elems_reduced = across.total.elems_sent / ways;
    theory.busiest.elems_reduced = most_below * count;
    theory.total.elems_reduced = (problem.size - 1) * count;
  }
  return theory;
}

}  // namespace ccoll
