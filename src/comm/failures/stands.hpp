// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where ranks stand in a call: this rank's answer to others, and their answers to it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/progress/operation.hpp"

namespace ccoll {

/// This rank's position in a call, while nothing moves there.
struct StandReport {
  std::uint64_t sequence = 0;
  std::string words;
  Clock::time_point since;
};

/// Ranks that were asked where they stand in a call, and their answers.
struct AskedStands {
  std::uint64_t sequence = 0;
  Clock::time_point at;
  std::vector<Rank> ranks;
  std::map<Rank, std::string> answers;

  /// The first needed rank that has not come to that call, else the first needed one that did not
  /// answer.
  std::optional<Rank> absent(std::uint64_t call, const std::vector<Rank>& needed) const;
};

}  // namespace ccoll
