// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which side copies the payload of a message from one rank: one choice for each power of two of
/// its bytes.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/copier_choice.hpp"
#include "transport/copy_costs.hpp"

namespace ccoll {

class CopierChoices {
 public:
  /// `costs`: this machine's, or null if they are not known.
  explicit CopierChoices(std::shared_ptr<const CopyCosts> costs) : costs_(std::move(costs)) {}

  /// The choice begins with what costs less on this machine. `pattern`: of the first message of
  /// that size. Later ones count on the same choice, so that both ranks count alike.
  CopierChoice& of(std::uint64_t bytes, CopyCosts::Pattern pattern) {
    const auto place = std::max(static_cast<int>(std::bit_width(bytes)) - kLeastBits, 0);
    auto& [choice, is_used] = choices_[std::min<std::size_t>(place, choices_.size() - 1)];
    if (!std::exchange(is_used, true) && costs_)
      choice.estimate(!costs_->prefers_loan(pattern, bytes));
    return choice;
  }

 private:
  static constexpr int kLeastBits = 14;

  struct OfSize {
    CopierChoice choice;
    bool is_used = false;
  };
  const std::shared_ptr<const CopyCosts> costs_;
  std::array<OfSize, 16> choices_;
};

}  // namespace ccoll
