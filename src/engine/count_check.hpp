// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Verifies that the counts of senders and receivers agree when ranks with nothing for each other
/// send nothing. Alongside the exchange, the ranks add up one number, to which every count
/// contributes twice, with opposite signs. The sum is 0 on every rank if all counts agree. Each
/// rank sends two messages of 8 bytes on average, three at most, in about 2 log2(ranks) steps.

#include <cstdint>
#include <memory>

#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

class CountCheck {
 public:
  /// The links' lanes from here on belong to the check.
  static constexpr std::uint16_t kFirstLane = 0x4000;

  /// `program`: an all_reduce of one number among `size` ranks.
  static Result<std::unique_ptr<CountCheck>> make(const Program& program, Rank size,
                                                  LinkTable& links);

  /// Begins beside a run of all_to_all on rank `rank`; `sent` and `expected`: its counts by rank.
  void start(const PlanRun& run, Rank rank, const std::vector<std::uint64_t>& sent,
             const std::vector<std::uint64_t>& expected);
  /// Fails once found() is true.
  Result<bool> advance();
  bool done() const { return plan_->done(); }
  /// Whether some rank's counts differ from those that another expects.
  bool found() const { return done() && sum_ != 0; }
  const Plan& plan() const { return *plan_; }

 private:
  CountCheck() = default;

  std::uint64_t mine_ = 0;
  std::uint64_t sum_ = 0;
  PlanRun run_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace ccoll
