// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Passes what one rank tells another about its waits: calls to compare, and questions that follow
/// ranks' waits to find a cycle. Without a connection to that rank, a publication goes along the
/// tree, or around ranks that have gone. Service thread only.

#include <cstdint>
#include <utility>
#include <vector>

#include "control/connections/edges.hpp"
#include "control/flooding.hpp"
#include "control/news.hpp"
#include "control/state/cycles.hpp"
#include "control/wire.hpp"

namespace ccoll::control {

class Publications {
 public:
  Publications(std::uint32_t rank, std::uint32_t size, News& news, Edges& edges, Flooding& flooding)
      : rank_(rank), size_(size), news_(news), edges_(edges), flooding_(flooding), cycles_(rank) {}

  /// As Control's.
  void publish(const Waiting& waiting, const std::vector<std::uint32_t>& ranks);
  void tell_waits(std::uint64_t communicator, std::vector<OpenWait> waits) {
    cycles_.set_waits(communicator, std::move(waits));
  }
  void seek_cycle(std::uint64_t communicator, std::uint64_t sequence);

  /// Takes it if it is for this rank; otherwise sends it nearer to its destination.
  void route(Publication publication);

 private:
  /// Takes what is for this rank.
  void take(const Publication& told);
  /// Handles a question of a cycle that came to this rank.
  void pursue(const Publication& asked);

  const std::uint32_t rank_;
  const std::uint32_t size_;
  News& news_;
  Edges& edges_;
  Flooding& flooding_;
  Cycles cycles_;
};

}  // namespace ccoll::control
