// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Losses of a rank to others: time that it slept, and operations. Kept where a rank sleeps or
/// fails anyway. Used by the holder of the owner flag.

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

class Losses {
 public:
  struct Loss {
    std::uint64_t waits = 0;
    std::chrono::nanoseconds time{0};
    std::uint64_t errors = 0;
  };

  /// A sleep in which all of `peers` were awaited.
  void slept(const std::vector<Rank>& peers, std::chrono::nanoseconds time) {
    for (const auto peer : peers) {
      auto& loss = by_peer_[peer];
      loss.waits++;
      loss.time += time;
    }
  }
  void failed(Rank peer) { by_peer_[peer].errors++; }

  const std::map<Rank, Loss>& by_peer() const { return by_peer_; }

 private:
  std::map<Rank, Loss> by_peer_;
};

}  // namespace ccoll
