// SPDX-License-Identifier: Apache-2.0
#include "engine/windows.hpp"

#include <algorithm>

namespace ccoll {
namespace {

/// In an all_to_all_v of up to so many ranks, all send each other word that they have nothing.
constexpr Rank kMostTold = 64;

}  // namespace

bool tells_empty_blocks(const Problem& problem) {
  return sizes_are_private(problem) &&
         (problem.kind != Kind::all_to_all || problem.size <= kMostTold);
}

std::uint64_t Windows::count() const {
  return std::max(least_, window_count(problem_, blocks_, {.slice_elems = slice_elems_}));
}

std::vector<Stretch> Windows::stretches(Buffer buffer, std::uint64_t begin,
                                        std::uint64_t end) const {
  std::vector<Stretch> stretches;
  if (!has(problem_, rank_, buffer)) return stretches;
  const auto windows = count();
  if (begin >= std::min(end, windows)) return stretches;
  const auto add = [&](std::uint64_t offset, std::uint64_t elems) {
    const auto first = std::min(elems, begin * slice_elems_);
    // For the last window, the product may overflow 64 bits.
    const auto last = end >= windows ? elems : std::min(elems, end * slice_elems_);
    if (first == last) return;
    if (!stretches.empty() && stretches.back().first + stretches.back().elems == offset + first)
      stretches.back().elems += last - first;
    else
      stretches.push_back({offset + first, last - first});
  };
  const bool has_one = holds_own_block_only(problem_.kind, buffer);
  std::uint64_t offset = 0;
  for (std::uint32_t block = has_one ? rank_ : 0; block < (has_one ? rank_ + 1 : blocks_);
       block++) {
    const auto elems = block_elems(problem_, blocks_, block, buffer);
    add(offset, elems);
    offset += elems;
  }
  return stretches;
}

}  // namespace ccoll
