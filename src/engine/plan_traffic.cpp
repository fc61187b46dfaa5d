// SPDX-License-Identifier: Apache-2.0
// The traffic of a plan's runs, computed from the program on request, so that a run only needs to
// be counted.
#include <algorithm>

#include "engine/plan.hpp"

namespace ccoll {
namespace {

/// The number of the windows stripe, stripe + stripes, … below `end`.
std::uint64_t windows_below(std::uint64_t end, std::uint64_t stripe, std::uint64_t stripes) {
  return end > stripe ? (end - stripe - 1) / stripes + 1 : 0;
}

}  // namespace

Plan::Volume Plan::volume_of(const ReadyLane& lane, const std::vector<BlockPlace>& parts,
                             std::uint64_t end) const {
  Volume volume;
  for (const auto& part : parts) {
    const auto elems = extents_.of(part).elems;
    const auto whole = elems / slice_elems_, rest = elems % slice_elems_;
    const auto slices = windows_below(std::min(whole, end), lane.stripe, stripes_);
    const bool has_rest = rest > 0 && whole < end && whole % stripes_ == lane.stripe;
    volume.bytes += (slices * slice_elems_ + (has_rest ? rest : 0)) * elem_bytes_;
    // A message is sent if any part has elements: count those of the longest.
    volume.messages = std::max(volume.messages, slices + (has_rest ? 1 : 0));
  }
  return volume;
}

Plan::Volume Plan::volume_of(const ReadyLane& lane, std::size_t step, std::uint64_t end) const {
  const auto& ready = lane.steps[step];
  return volume_of(lane, ready.local.empty() ? ready.store : ready.local, end);
}

void Plan::settle_runs() {
  for (auto& lane : lanes_)
    for (std::size_t i = 0; i < lane.steps.size(); i++)
      lane.steps[i].before.add(volume_of(lane, i, windows_), runs_);
  runs_ = 0;
}

void Plan::add_traffic(TrafficTable& table) const {
  for (const auto& lane : lanes_) {
    for (std::size_t i = 0; i < lane.steps.size(); i++) {
      const auto& step = lane.steps[i];
      auto volume = step.before;
      volume.add(volume_of(lane, i, windows_), runs_);
      if (!done_) volume.add(volume_of(lane, i, lane.window + (i < lane.position ? 1 : 0)), 1);
      if (volume.messages == 0) continue;
      for (std::size_t to = 0; to < step.sends.size(); to++)
        table[{step.to[to], step.sends[to]->report().transport}] +=
            {volume.messages, volume.bytes, 0, 0, 0};
      for (std::size_t from = 0; from < step.receives.size(); from++)
        table[{step.from[from], step.receives[from]->report().transport}] +=
            {0, 0, volume.messages, volume.bytes, 0};
    }
  }
}

}  // namespace ccoll
