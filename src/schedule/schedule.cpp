// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.hpp"

#include <utility>

namespace ccoll {
namespace {

Lane moved(Lane lane, std::uint16_t copies, std::uint16_t copy) {
  const auto move = [&](std::uint16_t& number) {
    number = static_cast<std::uint16_t>(number * copies + copy);
  };
  lane.stripe = copy;
  for (Step& step : lane.steps) {
    for (Receive& receive : step.receives) move(receive.lane);
    if (step.after) move(step.after->lane);
  }
  return lane;
}

}  // namespace

Program striped(Program program, std::uint16_t copies) {
  if (copies <= 1) return program;
  std::vector<Lane> lanes;
  lanes.reserve(program.lanes.size() * copies);
  for (const Lane& lane : program.lanes) {
    for (std::uint16_t copy = 0; copy < copies; ++copy) lanes.push_back(moved(lane, copies, copy));
  }
  program.lanes = std::move(lanes);
  program.stripes = copies;
  return program;
}

}  // namespace ccoll
