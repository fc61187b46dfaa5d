// SPDX-License-Identifier: Apache-2.0
// Position of a run and the ranks it waits for, for diagnosis.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/count_check.hpp"
#include "engine/plan.hpp"

namespace ccoll {
namespace {

void make_set(std::vector<Rank>& ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

}  // namespace

std::uint64_t Plan::steps_taken() const {
  std::uint64_t taken = count_check_ ? count_check_->plan().steps_taken() : 0;
  for (const auto& lane : lanes_) taken += lane.window * lane.steps.size() + lane.position;
  return taken;
}

std::vector<Rank> Plan::silent() const {
  std::vector<Rank> ranks, silent;
  for (const auto& lane : lanes_) {
    for (std::size_t i = 0; i < lane.steps.size(); i++) {
      const auto& step = lane.steps[i];
      const auto over = lane.window + (i < lane.position ? 1 : 0);
      if (layout_.volume_of(lane, i, layout_.windows()).messages <=
          layout_.volume_of(lane, i, over).messages)
        continue;
      for (std::size_t from = 0; from < step.receives.size(); from++)
        if (!step.receives[from]->whole()) ranks.push_back(step.from[from]);
    }
  }
  make_set(ranks);
  std::ranges::set_difference(ranks, awaited(), std::back_inserter(silent));
  return silent;
}

std::vector<Rank> Plan::awaited(Which which) const {
  std::vector<Rank> ranks;
  const auto add = [&](const auto& link, Rank peer) {
    if (which != Which::never_connected || !link.connected()) ranks.push_back(peer);
  };
  for (const auto& lane : lanes_) {
    if (lane.window >= limit_ || lane.steps.empty()) continue;
    const auto& step = lane.step();
    if (!after_holds(lanes_, lane)) continue;
    for (std::size_t i = 0; i < step.receives.size(); i++)
      if (!step.receives[i]->whole()) add(*step.receives[i], step.from[i]);
    for (std::size_t i = 0; i < step.sends.size(); i++)
      if (!step.sends[i]->has_room()) add(*step.sends[i], step.to[i]);
  }
  if (which != Which::in_the_way || ranks.empty())
    for (const auto& [link, peer] : executor_.outgoing())
      if (!link->drained()) add(*link, peer);
  if (count_check_ && !count_check_->done()) {
    const auto others = count_check_->plan().awaited(which);
    ranks.insert(ranks.end(), others.begin(), others.end());
  }
  make_set(ranks);
  return ranks;
}

std::optional<Plan::Stand> Plan::stand() const {
  for (const auto& lane : lanes_) {
    if (lane.window >= limit_ || lane.steps.empty()) continue;
    if (!after_holds(lanes_, lane)) continue;
    return Stand{lane.number, lane.position, lane.steps.size(), lane.window, layout_.windows()};
  }
  return std::nullopt;
}

std::string Plan::standing() const {
  if (rests_)
    return fmt::format("before window {} of {}, whose data have not reached the host yet",
                       limit_ + 1, layout_.windows());
  const auto at = stand();
  if (!at && count_check_ && !count_check_->done())
    return "its own part is over, and it checks whether all ranks' counts match";
  if (!at) return "its own part is over, but what it sent has not all been received";
  return fmt::format("in step {} of {}, window {} of {}", at->step + 1, at->steps, at->window + 1,
                     at->windows);
}

}  // namespace ccoll
