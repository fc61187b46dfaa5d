// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/traffic.hpp"

#include <cstddef>

namespace ccoll {

void RunTraffic::settle(std::span<const ReadyLane> lanes, const BlockLayout& layout) {
  std::size_t at = 0;
  for (const auto& lane : lanes) {
    for (std::size_t i = 0; i < lane.steps.size(); i++, at++) {
      if (at == settled_.size()) settled_.emplace_back();
      settled_[at].add(layout.volume_of(lane, i, layout.windows()), runs_);
    }
  }
  runs_ = 0;
}

void RunTraffic::add_to(TrafficTable& table, std::span<const ReadyLane> lanes,
                        const BlockLayout& layout, bool is_running) const {
  std::size_t at = 0;
  for (const auto& lane : lanes) {
    for (std::size_t i = 0; i < lane.steps.size(); i++, at++) {
      const auto& step = lane.steps[i];
      auto volume = at < settled_.size() ? settled_[at] : StepVolume{};
      volume.add(layout.volume_of(lane, i, layout.windows()), runs_);
      if (is_running)
        volume.add(layout.volume_of(lane, i, lane.window + (i < lane.position ? 1 : 0)), 1);
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
