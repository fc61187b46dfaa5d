// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/block_budget.hpp"

#include <algorithm>

#include "system/runtime.hpp"

namespace ccoll::device {
namespace {

/// A team may have two calls in flight at a time.
constexpr std::uint32_t kCallsOfTeam = 2;
/// Room for one more block is enough for a block of a step that copies messages.
constexpr std::uint32_t kForSteps = 1;

}  // namespace

BlockBudget& BlockBudget::of_process() { return Runtime::one<BlockBudget>(); }

std::uint32_t BlockBudget::room(const void* team, int device, std::uint32_t at_once) const {
  return room(*taken_.lock(), team, device, at_once);
}

std::uint32_t BlockBudget::room(const ByTeam& all, const void* team, int device,
                                std::uint32_t at_once) {
  std::uint32_t own = 0, others = 0, least = UINT32_MAX;
  for (const auto& [of, taken] : all) {
    if (of.first != device) continue;
    least = std::min(least, taken.at_once);
    (of.second == team ? own : others) += taken.blocks;
  }
  // A device may run no block of a kernel that needs more than it has.
  const std::uint32_t run = std::max(std::min(at_once, least), kForSteps);
  const std::uint32_t most = (run - kForSteps) / kCallsOfTeam;
  if (others > most) return 0;
  const std::uint32_t room = (most - others + 1) / 2;
  if (own <= room) return room;
  // The team keeps what it has, unless fewer of the new blocks run: they leave less room for all.
  return at_once < least ? 0 : own;
}

bool BlockBudget::take(const void* team, std::span<const Need> needs) {
  const auto all = taken_.lock();
  const auto fits = [&](const Need& need) {
    return need.blocks <= room(*all, team, need.device, need.at_once);
  };
  if (!std::ranges::all_of(needs, fits)) return false;
  for (const Need& need : needs) {
    Taken& taken = (*all)[{need.device, team}];
    taken.blocks = std::max(taken.blocks, need.blocks);
    taken.at_once = std::min(taken.at_once, need.at_once);
  }
  return true;
}

std::uint32_t BlockBudget::reserve(const void* team, const Need& most) {
  const auto all = taken_.lock();
  const std::uint32_t blocks = std::min(most.blocks, room(*all, team, most.device, most.at_once));
  if (blocks != 0) (*all)[{most.device, team}] = {blocks, most.at_once};
  return blocks;
}

void BlockBudget::limit(const void* team, std::uint32_t blocks) {
  const auto all = taken_.lock();
  for (auto& [of, taken] : *all)
    if (of.second == team) taken.blocks = std::min(taken.blocks, blocks);
}

void BlockBudget::give_back(const void* team) {
  std::erase_if(*taken_.lock(), [=](const auto& entry) { return entry.first.second == team; });
}

}  // namespace ccoll::device
