// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which side copies the payload of a message of some size from one rank: one choice for each power
/// of two of its bytes.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/copier_choice.hpp"
#include "transport/copy_costs.hpp"

namespace ccoll {

class CopierChoices {
 public:
  /// Begins with what costs less on this machine.
  void estimate(const CopyCosts& costs) {
    constexpr auto kOneWay = CopyCosts::Pattern::one_way;
    for (std::size_t i = 0; i < choices_.size(); i++)
      choices_[i].estimate(!costs.prefers_loan(kOneWay, least_bytes_of(i)));
  }
  CopierChoice& of(std::uint64_t bytes) {
    const auto place = std::max(static_cast<int>(std::bit_width(bytes)) - kLeastBits, 0);
    return choices_[std::min<std::size_t>(place, choices_.size() - 1)];
  }

 private:
  static constexpr int kLeastBits = 14;
  /// The shortest messages of a choice; the first one has shorter ones, too.
  static std::uint64_t least_bytes_of(std::size_t choice) {
    return std::uint64_t{1} << (kLeastBits - 1 + choice);
  }

  std::array<CopierChoice, 16> choices_;
};

}  // namespace ccoll
