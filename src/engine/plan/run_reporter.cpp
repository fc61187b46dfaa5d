// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/run_reporter.hpp"

#include <cstdint>

namespace ccoll {

void RunReporter::begin(const PlanRun& run, const Problem& problem, std::span<ReadyLane> lanes) {
  for (auto& lane : lanes) lane.lacked = ReadyLane::kNothing;
  observer_->begins(run.signature, run.sequence);
  if (!problem.block_counts.empty()) observer_->has_blocks(problem);
}

void RunReporter::move(ReadyLane& lane) {
  const auto& step = lane.step();
  const auto lacked = std::exchange(lane.lacked, ReadyLane::kNothing);
  const auto receives = step.receives.size();
  if (lacked < receives)
    observer_->moves(lane.number, Awaited::message, step.from[lacked]);
  else if (lacked < receives + step.sends.size())
    observer_->moves(lane.number, Awaited::room, step.to[lacked - receives]);
  else
    observer_->moves(lane.number, lacked == ReadyLane::kStep ? Awaited::step : Awaited::nothing,
                     rank_);
}

void RunReporter::ran(const ReadyLane& lane, std::size_t bytes) {
  observer_->ran({rank_, lane.number, static_cast<std::uint32_t>(lane.position), lane.window},
                 bytes);
}

}  // namespace ccoll
