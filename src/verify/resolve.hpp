// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All ranks' programs, checked for form and laid out flat, for code that walks a whole schedule.
/// Lanes and links get global numbers, operands become lists of single blocks. Execution, data flow
/// and race detection work on this and share nothing else.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "verify/findings.hpp"

namespace ccoll::detail {

inline constexpr std::uint32_t kNone = UINT32_MAX;

/// Whether the caller of this rank has the block in that buffer; see `Buffer`.
bool has_input(const Problem& problem, Rank rank, std::uint32_t block);
bool has_output(const Problem& problem, Rank rank, std::uint32_t block);

/// A block of a rank's input.
struct InputBlock {
  Rank rank;
  std::uint32_t block;
};

/// The input block that an output block is a copy of. If contributions are combined, every rank has
/// that block, and `rank` is any of them.
InputBlock source_of(const Problem& problem, Rank rank, std::uint32_t block);

/// One block of an operand, its number already reduced mod blocks.
struct Segment {
  Buffer buffer;
  std::uint32_t block;
  std::uint32_t sizes;  ///< number of the table of elements that has its size
};

/// A part of one of the flat lists.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct ResolvedStep {
  Range receives;  ///< link numbers, ascending peer
  Range sends;     ///< link numbers
  Range local;     ///< segments
  Range store;     ///< segments
  /// Its own data's place among the sources in rank order: after receives from lower ranks.
  std::uint32_t own_place = 0;
  std::uint32_t after_lane = kNone;  ///< global
  std::uint32_t after_step = 0;
  std::uint32_t target = kNone;  ///< its number among the steps that others wait for with `after`
  bool finish = false;
  Lend lend = Lend::never;
};

struct ResolvedLane {
  Rank rank = 0;
  std::uint16_t number = 0;
  std::uint16_t stripe = 0;
  Range steps;
  std::uint32_t scratch_block = 0;
  std::uint32_t scratch_blocks = 0;
  std::uint32_t scratch_begin = 0;  ///< first of its cells among all lanes' scratch
};

struct ResolvedLink {
  std::uint32_t from_lane = 0;    ///< global
  std::uint32_t to_lane = kNone;  ///< global; none if no lane pops it
  Rank to = 0;
};

struct Resolved {
  Problem problem;
  std::uint32_t blocks = 1;
  std::uint32_t windows = 0;
  std::uint32_t stripes = 1;
  std::vector<ResolvedLane> lanes;
  std::vector<std::uint32_t> lanes_begin;  ///< by rank, and one past the last
  std::vector<ResolvedStep> steps;
  std::vector<ResolvedLink> links;
  std::vector<std::uint32_t> step_links;
  std::vector<Segment> segments;
  /// Tables of the elements of each block in each window, window by window. There is one for all;
  /// if sizes are private, there are two per rank, for its input and its output.
  std::vector<std::uint64_t> elems;
  bool private_sizes = false;
  std::uint32_t scratch_cells = 0;
  std::uint32_t targets = 0;  ///< steps that others wait for with `after`

  const ResolvedStep& step(std::uint32_t lane, std::uint32_t number) const {
    return steps[lanes[lane].steps.begin + number];
  }
  std::span<const std::uint32_t> links_of(Range range) const {
    return std::span(step_links).subspan(range.begin, range.end - range.begin);
  }
  std::span<const Segment> segments_of(Range range) const {
    return std::span(segments).subspan(range.begin, range.end - range.begin);
  }
  /// The size of a table: the blocks of all windows.
  std::size_t cells() const { return std::size_t{windows} * blocks; }
  std::uint32_t sizes_of(Rank rank, Buffer buffer) const {
    return private_sizes ? 2 * rank + (buffer == Buffer::output ? 1 : 0) : 0;
  }
  std::uint64_t elems_of(const Segment& segment, std::uint32_t window) const {
    return elems[segment.sizes * cells() + std::size_t{window} * blocks + segment.block];
  }
  /// The layout of the step's result.
  std::span<const Segment> layout(const ResolvedStep& step) const {
    return segments_of(step.local.begin != step.local.end ? step.local : step.store);
  }
  /// Whether the step has any element to work on in that window.
  bool active(const ResolvedStep& step, std::uint32_t window) const {
    for (const Segment& segment : layout(step)) {
      if (elems_of(segment, window) != 0) return true;
    }
    return false;
  }
  /// This block's scratch cell for this lane, among all lanes' cells.
  std::uint32_t scratch_cell(const ResolvedLane& lane, std::uint32_t block) const {
    return lane.scratch_begin + (block + blocks - lane.scratch_block) % blocks;
  }

  /// "rank 3 lane 0 step 5", "… window 1".
  std::string place(std::uint32_t lane, std::uint32_t step) const;
  std::string place(std::uint32_t lane, std::uint32_t step, std::uint32_t window) const;
  /// "rank 3 lane 0 to rank 4".
  std::string link_name(std::uint32_t link) const;
};

/// Empty if the form is wrong; then `findings` says how. `problem` is whole.
std::optional<Resolved> resolve(const Problem& problem, const Choice& choice,
                                const Schedule& schedule, Findings& findings);

}  // namespace ccoll::detail
