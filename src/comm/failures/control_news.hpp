// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's ear at the control path: takes what other ranks tell, on the service thread, to
/// the parts that it concerns.

#include <cstdint>
#include <optional>
#include <string>

#include "comm/failures/comparison.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/waits.hpp"
#include "comm/groups/births.hpp"
#include "comm/groups/self.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/dumps.hpp"
#include "comm/record/history.hpp"
#include "control/control.hpp"

namespace ccoll {

class ControlNews final : public ControlObserver {
 public:
  /// The parts that hear of news.
  struct Listeners {
    Failures& failures;
    Dumps& dumps;
    Comparison& comparison;
    Waits& waits;
    const Births& births;
  };

  ControlNews(const Self& self, const Progress& progress, const History& history,
              const Listeners& listeners)
      : self_(self), progress_(progress), history_(history), tell_(listeners) {}

  void failed(std::uint64_t communicator, const Failure& failure) override;
  void left(std::uint32_t rank) override;
  void lost(std::uint32_t rank, const Failure& failure) override;
  std::optional<Failure> compare(std::uint32_t peer, const Waiting& waiting) override;
  bool has_begun(std::uint64_t sequence) override { return history_.calls() > sequence; }
  void in_cycle(std::uint64_t sequence, const std::string& cycle) override;

 private:
  /// Tells the others if the subgroup that `peer` announces will never be made.
  void compare_groups(Rank peer, const Waiting& announced) const;

  const Self& self_;
  const Progress& progress_;
  const History& history_;
  const Listeners tell_;
};

}  // namespace ccoll
