// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/block_layout.hpp"

#include <algorithm>
#include <utility>

namespace ccoll {
namespace {

/// The number of the windows stripe, stripe + stripes, … below `end`.
std::uint64_t windows_below(std::uint64_t end, std::uint64_t stripe, std::uint64_t stripes) {
  return end > stripe ? (end - stripe - 1) / stripes + 1 : 0;
}

}  // namespace

BlockLayout::BlockLayout(const PlanRequest& request)
    : problem_(request.problem),
      rank_(request.program.rank),
      blocks_(request.program.blocks),
      elem_bytes_(size_of(request.type)),
      slice_elems_(request.choice.slice_elems),
      stripes_(request.program.stripes),
      has_private_sizes_(sizes_are_private(problem_)),
      tells_empty_blocks_(ccoll::tells_empty_blocks(problem_)) {
  problem_.host_of.clear();  // needed only to make the program
  measure();
}

void BlockLayout::take_sizes_of(const PlanRun& run) {
  problem_.block_counts = run.block_counts;
  problem_.output_counts = run.output_counts;
  measure();
}

void BlockLayout::measure() {
  const std::uint64_t least = tells_empty_blocks_ ? 1 : 0;
  windows_ = std::max(least, window_count(problem_, blocks_, {.slice_elems = slice_elems_}));
  for (const auto buffer : {Buffer::input, Buffer::output}) {
    auto& extents = extents_[buffer == Buffer::output ? 1 : 0];
    extents.resize(blocks_);
    const bool one_block = holds_own_block_only(problem_.kind, buffer);
    std::uint64_t offset = 0;
    for (std::uint32_t block = 0; block < blocks_; block++) {
      const auto elems = block_elems(problem_, blocks_, block, buffer);
      extents[block] = {one_block ? 0 : offset, elems};
      offset += elems;
    }
  }
}

Windows BlockLayout::windows_with(const std::vector<std::uint64_t>& block_counts,
                                  const std::vector<std::uint64_t>& output_counts) const {
  auto problem = problem_;
  if (!block_counts.empty()) {
    problem.block_counts = block_counts;
    problem.output_counts = output_counts;
  }
  return {std::move(problem), rank_, blocks_, slice_elems_, tells_empty_blocks_ ? 1U : 0U};
}

std::uint64_t BlockLayout::longest() const {
  std::uint64_t longest = 0;
  for (const auto& extents : extents_)
    for (const auto& extent : extents) longest = std::max(longest, extent.elems);
  return longest;
}

std::uint64_t BlockLayout::bytes_of(Buffer buffer) const {
  if (!has(problem_, rank_, buffer)) return 0;
  if (holds_own_block_only(problem_.kind, buffer))
    return block_elems(problem_, blocks_, rank_, buffer) * elem_bytes_;
  const auto& extents = extents_[buffer == Buffer::output ? 1 : 0];
  return extents.empty() ? 0 : (extents.back().offset + extents.back().elems) * elem_bytes_;
}

StepVolume BlockLayout::volume_of(const ReadyLane& lane, std::size_t step,
                                  std::uint64_t end) const {
  StepVolume volume;
  for (const auto& part : lane.steps[step].slice()) {
    const auto elems = of(part).elems;
    const auto whole = elems / slice_elems_, rest = elems % slice_elems_;
    const auto slices = windows_below(std::min(whole, end), lane.stripe, stripes_);
    const bool has_rest = rest > 0 && whole < end && whole % stripes_ == lane.stripe;
    volume.bytes += (slices * slice_elems_ + (has_rest ? rest : 0)) * elem_bytes_;
    // A message is sent if any part has elements: count those of the longest.
    volume.messages = std::max(volume.messages, slices + (has_rest ? 1 : 0));
  }
  return volume;
}

}  // namespace ccoll
