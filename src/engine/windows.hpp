// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The place of a run's windows in its rank's buffers, for callers that have memory for only a few
/// at a time (PlanRun::open_windows). Pure.

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

/// Whether ranks with nothing for each other send a slice without data. In an all_to_all of many
/// ranks, such slices would cost much more than the few of a sparse exchange.
bool tells_empty_blocks(const Problem& problem);

/// A range of elements of a buffer.
struct Stretch {
  std::uint64_t first = 0;
  std::uint64_t elems = 0;

  friend bool operator==(const Stretch&, const Stretch&) = default;
};

class Windows {
 public:
  /// For a program with `blocks` blocks, and windows of `slice_elems` elements of each. `least`:
  /// the minimum number of windows, even if no block has elements.
  Windows(Problem problem, Rank rank, std::uint32_t blocks, std::uint64_t slice_elems,
          std::uint64_t least = 0)
      : problem_(std::move(problem)),
        rank_(rank),
        blocks_(blocks),
        slice_elems_(slice_elems),
        least_(least) {}

  std::uint64_t count() const;
  /// The parts of a buffer in windows [begin, end), in its order, neighbours joined. Windows do not
  /// overlap, and the first is never smaller than another.
  std::vector<Stretch> stretches(Buffer buffer, std::uint64_t begin, std::uint64_t end) const;

 private:
  Problem problem_;
  Rank rank_;
  std::uint32_t blocks_;
  std::uint64_t slice_elems_;
  std::uint64_t least_;
};

}  // namespace ccoll
