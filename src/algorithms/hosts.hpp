// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ranks share a host, as the algorithms that know of hosts see it: a row of hosts, each with
/// its ranks in ascending order. A problem without host_of has one host. Private to this folder.

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

class Hosts {
 public:
  /// O(ranks).
  explicit Hosts(const Problem& problem);

  Rank count() const { return static_cast<Rank>(first_.size() - 1); }
  /// The ranks of host `host`, ascending.
  std::span<const Rank> members(Rank host) const {
    return std::span(row_).subspan(first_[host], size(host));
  }
  Rank size(Rank host) const { return first_[host + 1] - first_[host]; }
  /// Ranks of the smallest and the largest host.
  Rank smallest() const { return smallest_; }
  Rank largest() const { return largest_; }

  Rank host_of(Rank rank) const { return places_[rank].host; }
  /// The rank's number among its host's ranks, from 0.
  Rank index_of(Rank rank) const { return places_[rank].index; }
  /// The other ranks of its host, ascending.
  std::vector<Rank> others_beside(Rank rank) const;
  /// All ranks of other hosts. The next host's come first, so that ranks do not all turn to the
  /// same host at once. All ranks of a host get the same row.
  std::vector<Rank> ranks_elsewhere(Rank host) const;
  /// The rank of `host` that passes on data of, or for, rank `of_rank` of another host. The host's
  /// ranks take turns, so that all carry a part of the host's traffic.
  Rank gate(Rank host, Rank of_rank) const { return members(host)[index_of(of_rank) % size(host)]; }

 private:
  struct Place {
    Rank host;
    Rank index;
  };
  std::vector<Place> places_;
  // Flat, for programs of tens of thousands of ranks: each rank's program looks at all hosts.
  std::vector<Rank> row_;    ///< all ranks, host by host
  std::vector<Rank> first_;  ///< where each host's ranks begin in row_, and its end
  Rank smallest_ = 0;
  Rank largest_ = 0;
};

}  // namespace ccoll
