// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reports a plan's runs to an observer, if there is one.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "engine/plan/lanes.hpp"
#include "engine/plan_request.hpp"
#include "schedule/step_record.hpp"

namespace ccoll {

class RunReporter {
 public:
  explicit RunReporter(Rank rank) : rank_(rank) {}

  void set(std::unique_ptr<StepObserver> observer) { observer_ = std::move(observer); }
  bool has_observer() const { return observer_ != nullptr; }

  // Each requires an observer.
  void begin(const PlanRun& run, const Problem& problem, std::span<ReadyLane> lanes);
  /// The lane's present step is about to run.
  void move(ReadyLane& lane);
  void ran(const ReadyLane& lane, std::size_t bytes);
  void end() { observer_->ends(); }

 private:
  Rank rank_;
  std::unique_ptr<StepObserver> observer_;
};

}  // namespace ccoll
