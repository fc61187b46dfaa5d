// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/resolve.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ccoll {
namespace {

/// Smaller slices are copied in less time than taking back a loan.
constexpr std::size_t kCopiedBytes = 4 << 10;

template <typename Entry>
void add_once(std::vector<Entry>& entries, const Entry& entry) {
  if (std::ranges::find(entries, entry) == entries.end()) entries.push_back(entry);
}

std::vector<BlockPlace> places_of(const PlanRequest& request, const Lane& lane,
                                  const std::vector<Operand>& operands) {
  std::vector<BlockPlace> places;
  const auto blocks = request.program.blocks;
  for (const auto& operand : operands) {
    for (std::uint32_t i = 0; i < operand.blocks; i++) {
      const auto block = (operand.block + i) % blocks;
      const auto scratch_block = (block + blocks - lane.scratch_block) % blocks;
      places.push_back({operand.buffer, block, scratch_block * request.choice.slice_elems});
    }
  }
  return places;
}

Status open_links(const PlanRequest& request, const Step& step, std::uint16_t lane,
                  LinkTable& links, ReadyProgram& program, ReadyStep& ready) {
  for (const auto& receive : step.receives) {
    auto link =
        links.receiver(receive.peer, static_cast<std::uint16_t>(request.first_lane + receive.lane));
    if (!link) return tl::unexpected(link.error());
    ready.receives.push_back(*link);
    ready.from.push_back(receive.peer);
    add_once(program.incoming, *link);
    if (receive.peer < request.program.rank) ready.local_position++;
  }
  for (const auto peer : step.sends) {
    auto link = links.sender(peer, static_cast<std::uint16_t>(request.first_lane + lane));
    if (!link) return tl::unexpected(link.error());
    ready.sends.push_back(*link);
    ready.to.push_back(peer);
    add_once(program.outgoing, {*link, peer});
  }
  return {};
}

/// The step but for its links.
ReadyStep ready_step(const PlanRequest& request, const Lane& lane, const Step& step) {
  ReadyStep ready;
  ready.local = places_of(request, lane, step.local);
  ready.store = places_of(request, lane, step.store);
  ready.after = step.after;
  ready.lend = step.lend;
  if (step.finish && request.op == ReduceOp::avg) ready.divisor = request.problem.size;
  ready.combines = step.receives.size() + (step.local.empty() ? 0 : 1) > 1 || ready.divisor > 1;
  ready.copies_input =
      !ready.combines && step.receives.empty() && !step.store.empty() &&
      std::ranges::all_of(step.local, [](const auto& o) { return o.buffer == Buffer::input; });
  return ready;
}

/// Sets fills_block of all steps.
void find_fillers(const PlanRequest& request, std::vector<ReadyLane>& lanes) {
  // An in-place reduction reads its input where the result goes.
  if (reduces(request.problem.kind) || request.program.stripes != 1) return;
  std::vector<std::uint32_t> stores(request.program.blocks);
  for (const auto& lane : lanes)
    for (const auto& step : lane.steps)
      for (const auto& part : step.store)
        if (part.buffer == Buffer::output) stores[part.block]++;
  for (auto& lane : lanes)
    for (auto& step : lane.steps)
      step.fills_block = step.store.size() == 1 && step.store[0].buffer == Buffer::output &&
                         stores[step.store[0].block] == 1;
}

/// The place of the parts, if they follow each other in memory.
std::optional<BufferPlace> contiguous(const std::vector<BlockPlace>& parts,
                                      const BlockLayout& layout) {
  BufferPlace place;
  for (const auto& part : parts) {
    const auto& extent = layout.of(part);
    if (extent.elems == 0) continue;
    const bool scratch = part.buffer == Buffer::scratch;
    const auto offset = (scratch ? part.scratch_offset : extent.offset) * layout.elem_bytes();
    if (place.bytes == 0)
      place = {offset, 0, part.buffer};
    else if (place.buffer != part.buffer || place.offset + place.bytes != offset)
      return std::nullopt;
    place.bytes += static_cast<std::uint32_t>(extent.elems * layout.elem_bytes());
  }
  return place;
}

ShortShape shape_of(const ReadyStep& step, const ShortStep& made) {
  const auto receives = step.receives.size(), sends = step.sends.size();
  if (step.after || made.bytes == 0 || receives + sends != 1) return ShortShape::any;
  if (receives == 1) return ShortShape::takes;
  return made.bytes <= kCopiedBytes && !step.combines ? ShortShape::gives : ShortShape::any;
}

}  // namespace

Result<ReadyProgram> resolve(const PlanRequest& request, LinkTable& links) {
  ReadyProgram program;
  for (const auto& lane : request.program.lanes) {
    const auto number = static_cast<std::uint16_t>(program.lanes.size());
    auto& ready = program.lanes.emplace_back();
    ready.number = number;
    ready.stripe = lane.stripe;
    ready.scratch.resize(lane.scratch_blocks * request.choice.slice_elems * size_of(request.type));
    for (const auto& step : lane.steps) {
      auto& made = ready.steps.emplace_back(ready_step(request, lane, step));
      CCOLL_TRY(open_links(request, step, number, links, program, made));
      program.most_sources = std::max(program.most_sources, step.receives.size() + 1);
    }
  }
  find_fillers(request, program.lanes);
  return program;
}

bool make_short(std::vector<ReadyLane>& lanes, const BlockLayout& layout) {
  if (layout.windows() != 1 || !layout.problem().block_counts.empty()) return false;
  for (auto& lane : lanes) {
    for (const auto& step : lane.steps) {
      const auto local = contiguous(step.local, layout), store = contiguous(step.store, layout);
      if (!local || !store) return false;
      auto& made = lane.short_steps.emplace_back();
      made.local = *local;
      made.store = *store;
      made.bytes = step.local.empty() ? made.store.bytes : made.local.bytes;
      made.elems = static_cast<std::uint32_t>(made.bytes / layout.elem_bytes());
      made.lend = step.store.empty() && !step.receives.empty() ? Lend::never : step.lend;
      made.divisor = step.divisor;
      made.combines = step.combines;
      made.own_first = step.local_position == 0;
      made.shape = shape_of(step, made);
      if (made.shape == ShortShape::gives) made.to = step.sends[0];
      if (made.shape == ShortShape::takes) made.from = step.receives[0];
    }
  }
  return true;
}

}  // namespace ccoll
