// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where a program's blocks lie in a rank's buffers, and the windows that its lanes handle one
/// after another. The sizes of ragged blocks may change between runs, never during one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan/lanes.hpp"
#include "engine/plan_request.hpp"
#include "engine/windows.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

/// Where a block begins in its buffer and how long it is, in elements.
struct BlockExtent {
  std::uint64_t offset;
  std::uint64_t elems;
};

/// The traffic of a step, per send and per receive.
struct StepVolume {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;

  void add(const StepVolume& other, std::uint64_t times) {
    messages += other.messages * times;
    bytes += other.bytes * times;
  }
};

class BlockLayout {
 public:
  explicit BlockLayout(const PlanRequest& request);

  const Problem& problem() const { return problem_; }
  Rank rank() const { return rank_; }
  std::size_t elem_bytes() const { return elem_bytes_; }
  std::uint64_t slice_elems() const { return slice_elems_; }
  std::uint64_t stripes() const { return stripes_; }
  /// Whether only the two ranks of each pair know their sizes for each other.
  bool has_private_sizes() const { return has_private_sizes_; }
  /// Whether a slice of a lane's first window is sent even if its block has no elements.
  bool tells_empty_blocks() const { return tells_empty_blocks_; }

  bool has_sizes_of(const PlanRun& run) const {
    return run.block_counts == problem_.block_counts && run.output_counts == problem_.output_counts;
  }
  void take_sizes_of(const PlanRun& run);

  std::uint64_t windows() const { return windows_; }
  /// The windows of runs with these block sizes, where the problem leaves them open.
  Windows windows_with(const std::vector<std::uint64_t>& block_counts,
                       const std::vector<std::uint64_t>& output_counts) const;
  /// Scratch is measured like the input.
  const BlockExtent& of(const BlockPlace& part) const {
    return extents_[part.buffer == Buffer::output ? 1 : 0][part.block];
  }
  /// The elements of the longest block.
  std::uint64_t longest() const;
  /// The bytes that this rank has of a buffer.
  std::uint64_t bytes_of(Buffer buffer) const;
  /// The traffic of a step of the lane, in its windows below `end`.
  StepVolume volume_of(const ReadyLane& lane, std::size_t step, std::uint64_t end) const;

 private:
  void measure();

  Problem problem_;
  Rank rank_;
  std::uint32_t blocks_;
  std::size_t elem_bytes_;
  std::uint64_t slice_elems_;
  std::uint64_t stripes_;
  bool has_private_sizes_;
  bool tells_empty_blocks_;
  std::uint64_t windows_ = 0;
  std::array<std::vector<BlockExtent>, 2> extents_;  ///< of the input's blocks, and of the output's
};

}  // namespace ccoll
