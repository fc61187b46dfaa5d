// SPDX-License-Identifier: Apache-2.0
#include "engine/plan_standing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/count_check.hpp"

namespace ccoll {
namespace {

void make_set(std::vector<Rank>& ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

}  // namespace

std::uint64_t PlanStanding::steps_taken() const {
  std::uint64_t taken = plan_.check != nullptr ? plan_.check->plan().standing().steps_taken() : 0;
  for (const auto& lane : plan_.lanes) taken += lane.window * lane.steps.size() + lane.position;
  return taken;
}

std::vector<Rank> PlanStanding::silent() const {
  const auto& layout = plan_.layout;
  std::vector<Rank> ranks, silent;
  for (const auto& lane : plan_.lanes) {
    for (std::size_t i = 0; i < lane.steps.size(); i++) {
      const auto& step = lane.steps[i];
      const auto over = lane.window + (i < lane.position ? 1 : 0);
      const auto all = layout.volume_of(lane, i, layout.windows()).messages;
      if (all <= layout.volume_of(lane, i, over).messages) continue;
      for (std::size_t from = 0; from < step.receives.size(); from++)
        if (!step.receives[from]->whole()) ranks.push_back(step.from[from]);
    }
  }
  make_set(ranks);
  std::ranges::set_difference(ranks, awaited(), std::back_inserter(silent));
  return silent;
}

std::vector<Rank> PlanStanding::awaited(Which which) const {
  std::vector<Rank> ranks;
  const auto add = [&](const auto& link, Rank peer) {
    if (which != Which::never_connected || !link.connected()) ranks.push_back(peer);
  };
  for (const auto& lane : plan_.lanes) {
    if (lane.window >= plan_.limit || lane.steps.empty()) continue;
    if (!after_holds(plan_.lanes, lane)) continue;
    const auto& step = lane.step();
    for (std::size_t i = 0; i < step.receives.size(); i++)
      if (!step.receives[i]->whole()) add(*step.receives[i], step.from[i]);
    for (std::size_t i = 0; i < step.sends.size(); i++)
      if (!step.sends[i]->has_room()) add(*step.sends[i], step.to[i]);
  }
  if (which != Which::in_the_way || ranks.empty())
    for (const auto& [link, peer] : plan_.outgoing)
      if (!link->drained()) add(*link, peer);
  if (plan_.check != nullptr && !plan_.check->done()) {
    const auto others = plan_.check->plan().standing().awaited(which);
    ranks.insert(ranks.end(), others.begin(), others.end());
  }
  make_set(ranks);
  return ranks;
}

std::optional<PlanStanding::Position> PlanStanding::position() const {
  for (const auto& lane : plan_.lanes) {
    if (lane.window >= plan_.limit || lane.steps.empty()) continue;
    if (!after_holds(plan_.lanes, lane)) continue;
    return Position{lane.number, lane.position, lane.steps.size(), lane.window,
                    plan_.layout.windows()};
  }
  return std::nullopt;
}

std::string PlanStanding::text() const {
  if (plan_.rests)
    return fmt::format("before window {} of {}, whose data have not reached the host yet",
                       plan_.limit + 1, plan_.layout.windows());
  const auto at = position();
  if (!at && plan_.check != nullptr && !plan_.check->done())
    return "its own part is over, and it checks whether all ranks' counts match";
  if (!at) return "its own part is over, but what it sent has not all been received";
  return fmt::format("in step {} of {}, window {} of {}", at->step + 1, at->steps, at->window + 1,
                     at->windows);
}

}  // namespace ccoll
