// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks on several hosts, for problems of algorithms that know about hosts.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "algorithms/algorithms.hpp"

namespace ccoll::testing {

using HostOf = std::vector<std::uint32_t>;

/// Renumbers hosts in order of appearance, without gaps.
inline HostOf numbered(HostOf hosts) {
  HostOf seen;
  for (auto& host : hosts) {
    const auto found = std::ranges::find(seen, host);
    if (found == seen.end()) {
      seen.push_back(host);
      host = static_cast<std::uint32_t>(seen.size() - 1);
    } else {
      host = static_cast<std::uint32_t>(found - seen.begin());
    }
  }
  return hosts;
}

/// One host; hosts of 1, 2, 3, … consecutive ranks; a few hosts whose ranks alternate. Only the
/// first if the algorithm ignores hosts.
inline std::vector<HostOf> host_layouts(const CatalogueEntry& entry, Rank size) {
  std::vector<HostOf> layouts{{}};
  if (!entry.by_host || size < 2) return layouts;
  HostOf growing, in_turn;
  for (std::uint32_t host = 0; growing.size() < size; ++host)
    growing.insert(growing.end(), std::min<std::size_t>(host + 1, size - growing.size()), host);
  for (Rank rank = 0; rank < size; ++rank) in_turn.push_back(rank % (2 + size % 4));
  layouts.push_back(growing);
  layouts.push_back(numbered(in_turn));
  if (size > 48) return {layouts[size % layouts.size()]};  // proofs are slow, so take turns
  return layouts;
}

/// Any number of hosts, with any sizes and order of ranks.
template <typename Random>
HostOf random_hosts(Rank size, Random& random) {
  HostOf hosts;
  const auto most = 1 + random() % size;
  for (Rank rank = 0; rank < size; ++rank)
    hosts.push_back(static_cast<std::uint32_t>(random() % most));
  return numbered(hosts);
}

}  // namespace ccoll::testing
