// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The cases of killed_test, which kills ranks that are processes: each case is text on a rank's
/// command line.

#include <cstddef>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/checked_call.hpp"

namespace ccoll::testing {

/// A rank is killed in the middle of a call.
struct AtStep {
  int victim = 0;
  int calls_before = 0;  ///< calls of the same kind
  int steps = 0;         ///< steps carried out in the call, which may have fewer
  Collective call;
};

/// Kills a rank this long after the start of the round. A round makes calls until one fails, and
/// ends with a shrink.
struct Death {
  int round = 0;
  int microseconds = 0;
};

struct Case {
  std::string transport;
  int size = 2;
  std::optional<AtStep> at_step;
  std::vector<std::optional<Death>> deaths;  ///< by rank; without at_step

  bool dies(int rank) const {
    return at_step ? rank == at_step->victim : deaths[static_cast<std::size_t>(rank)].has_value();
  }
  std::vector<int> survivors() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; rank++)
      if (!dies(rank)) ranks.push_back(rank);
    return ranks;
  }
  std::string text() const;  ///< for people
};

std::string to_words(const Case& each);
Case from_words(const std::string& words);

/// The exit status of a victim whose call had fewer steps; it, too, ends without a goodbye.
inline constexpr int kNotReached = 77;

/// Runs one rank in a process of its own; returns its exit status.
int be_rank(const Case& each, const std::string& store, int rank);

}  // namespace ccoll::testing
