// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's counts by peer and transport, put together from those that its parts keep.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ccoll/counters.hpp"
#include "comm/record/losses.hpp"
#include "engine/links.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

class PeerTable {
 public:
  /// `transport_to`: the transport that is in use to a rank; empty if that is not known.
  explicit PeerTable(std::function<std::string(Rank)> transport_to)
      : transport_to_(std::move(transport_to)) {}

  void add(const TrafficTable& table);
  void add(const Losses& losses);
  /// Receives that messages did not fit, by the messages' ranks.
  void add_refused(const std::map<Rank, std::uint64_t>& refused);

  /// In the order of ranks; only those with anything to count.
  std::vector<PeerCounters> peers() const;

 private:
  /// `transport`: empty for counts of all links to that rank.
  PeerCounters& of(Rank peer, std::string_view transport);

  const std::function<std::string(Rank)> transport_to_;
  std::map<std::pair<Rank, std::string>, PeerCounters> peers_;
};

}  // namespace ccoll
