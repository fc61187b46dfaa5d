// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How ranks learn that what each sends is what its receivers expect, where two that have nothing
/// for each other do not say so: beside the exchange they add up one number, to which every count
/// contributes twice, with either sign. It is 0 if all counts fit, and on every rank the same. That
/// takes a rank two messages of 8 bytes in the mean, three at most, and about 2 log2(ranks) steps.

#include <cstdint>
#include <memory>

#include "core/result.hpp"
#include "engine/plan.hpp"

namespace ccoll {

class CountCheck {
 public:
  /// The links' lanes from here on are the check's.
  static constexpr std::uint16_t kFirstLane = 0x4000;

  /// `program`: an all_reduce of one number among `size` ranks.
  static Result<std::unique_ptr<CountCheck>> make(const Program& program, Rank size,
                                                  LinkTable& links);

  /// Begins with a run of all_to_all on rank `rank`, whose counts by rank are `sent` and
  /// `expected`.
  void start(const PlanRun& run, Rank rank, const std::vector<std::uint64_t>& sent,
             const std::vector<std::uint64_t>& expected);
  Result<bool> advance() { return plan_->advance(); }
  bool done() const { return plan_->done(); }
  /// Whether some rank's counts are not what another expects.
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
