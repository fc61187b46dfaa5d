// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who shares a host with whom, as the algorithms that know of hosts look at it: hosts in a row,
/// each with its ranks in ascending order. A problem without host_of has one host. Private to this
/// folder.

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
  /// Which of its host's ranks it is, from 0.
  Rank index_of(Rank rank) const { return places_[rank].index; }
  /// Its host's other ranks, ascending.
  std::vector<Rank> others_beside(Rank rank) const;
  /// All ranks of other hosts: those of the next host first, so that not all ranks turn to the same
  /// one at once. The same row for all ranks of a host.
  std::vector<Rank> ranks_elsewhere(Rank host) const;
  /// The rank of `host` through which data of, or for, a rank of another host pass: its ranks take
  /// turns, so that all of them have a part in what enters and leaves the host.
  Rank gate(Rank host, Rank of_rank) const { return members(host)[index_of(of_rank) % size(host)]; }

 private:
  struct Place {
    Rank host;
    Rank index;
  };
  std::vector<Place> places_;
  // Flat, for programs of ten thousands of ranks: each rank's program looks at all hosts.
  std::vector<Rank> row_;    ///< all ranks, host by host
  std::vector<Rank> first_;  ///< where each host's ranks begin in it, and its end
  Rank smallest_ = 0;
  Rank largest_ = 0;
};

}  // namespace ccoll
