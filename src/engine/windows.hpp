// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where a run's windows lie in its rank's buffers: for who has memory for a few of them at a time
/// (PlanRun::open_windows). Pure.

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

/// Elements of a buffer.
struct Stretch {
  std::uint64_t first = 0;
  std::uint64_t elems = 0;

  friend bool operator==(const Stretch&, const Stretch&) = default;
};

class Windows {
 public:
  /// For a program with so many blocks, whose windows have so many elements of each. `least`: how
  /// many windows there are at least, also where no block has an element.
  Windows(Problem problem, Rank rank, std::uint32_t blocks, std::uint64_t slice_elems,
          std::uint64_t least = 0)
      : problem_(std::move(problem)),
        rank_(rank),
        blocks_(blocks),
        slice_elems_(slice_elems),
        least_(least) {}

  std::uint64_t count() const;
  /// What windows [begin, end) have of a buffer, in its order; neighbours as one. No window has
  /// what another has, and the first has no less than any other.
  std::vector<Stretch> stretches(Buffer buffer, std::uint64_t begin, std::uint64_t end) const;

 private:
  Problem problem_;
  Rank rank_;
  std::uint32_t blocks_;
  std::uint64_t slice_elems_;
  std::uint64_t least_;
};

}  // namespace ccoll
