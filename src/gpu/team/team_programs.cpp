// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "gpu/team/team_device.hpp"

namespace ccoll::device {

Status Team::Device::choose_threads(Gpu& gpu) const {
  gpu.most_threads = options_.most_threads;
  if (!counts_blocks()) return {};
  const auto ranks = static_cast<std::uint32_t>(
      std::ranges::count(numbers_, static_cast<std::uint32_t>(&gpu - gpus_.data())));
  return counted_blocks(gpu.device, ranks, options_.most_threads).map([&](const auto& counted) {
    gpu.most_threads = counted.threads;
  });
}

ProgramRoom Team::Device::room_on(const Gpu& gpu) const {
  ProgramRoom room{options_.ranks, options_.workspace_bytes, gpu.most_threads,
                   options_.most_blocks};
  if (!counts_blocks()) return room;
  room.beside = kBesideOthers;
  room.left = [this, device = gpu.device](std::uint32_t at_once) {
    return BlockBudget::of_process().room(this, device, at_once);
  };
  return room;
}

Result<LoadedProgram*> Team::Device::load(const LoweredTeam& lowered) {
  CCOLL_TRY(check_room(lowered, room_on(gpus_.front())));
  for (const TeamBlock& block : lowered.blocks) {
    if (block.device == numbers_[block.rank]) continue;
    return fail(ErrorKind::invalid_argument,
                "a program that has rank {} on the team's GPU number {}: it is on number {}",
                block.rank, block.device, numbers_[block.rank]);
  }
  const BesideCaptures beside;
  auto loaded = std::make_unique<LoadedProgram>();
  loaded->parts.resize(gpus_.size());
  loaded->blocks = lowered.blocks;
  if (can_copy_ && are_wanted(options_.copies, lowered.copies)) loaded->copies = lowered.copies;
  if (lowered.program.block_count != 0) {
    CCOLL_TRY(put(kernel_for(lowered.program), loaded->kernel));
    // Memory that a program has taken is never freed, so a refused one must not take any.
    std::vector<BlockBudget::Need> needs;
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      CCOLL_TRY(current.status());
      ProgramPart& part = loaded->parts[number];
      part.program = lowered.program;
      part.program.block_count = static_cast<std::uint32_t>(lowered.blocks_of(number).size());
      const Gpu& gpu = gpus_[number];
      CCOLL_TRY(shape(part, loaded->kernel, room_on(gpu), gpu.device));
      needs.push_back({gpu.device, part.program.block_count, part.at_once});
    }
    if (counts_blocks()) CCOLL_TRY(take_room(needs));
    for (std::uint32_t number = 0; number < gpus_.size(); ++number) {
      const CurrentDevice current(gpus_[number].device);
      CCOLL_TRY(current.status());
      Gpu& gpu = gpus_[number];
      CCOLL_TRY(upload(loaded->parts[number], lowered, number, gpu.lists, gpu.uploads.get()));
      shared_.lock()->list_bytes[number] = gpu.lists.bytes();
    }
  }
  return shared_.lock()->programs.emplace_back(std::move(loaded)).get();
}

Status Team::Device::take_room(std::span<const BlockBudget::Need> needs) {
  if (!BlockBudget::of_process().take(this, needs)) {
    return fail(ErrorKind::unsupported,
                "another program has taken the room that the blocks of this one need{}",
                kBesideOthers);
  }
  const auto shared = shared_.lock();
  shared->needs.insert(shared->needs.end(), needs.begin(), needs.end());
  return {};
}

bool Team::Device::take_room() {
  const auto shared = shared_.lock();
  for (const BlockBudget::Need& need : shared->needs) {
    if (BlockBudget::of_process().take(this, {&need, 1})) continue;
    give_room_back();
    return false;
  }
  return true;
}

}  // namespace ccoll::device
