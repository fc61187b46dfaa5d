// SPDX-License-Identifier: Apache-2.0
#include "algorithms/power_of_two_core.hpp"

namespace ccoll {

std::vector<std::uint64_t> group_sums(const Problem& problem, const PowerOfTwoCore& core) {
  std::vector<std::uint64_t> before{0};
  for (const std::uint64_t elems : problem.block_counts) before.push_back(before.back() + elems);
  std::vector<std::uint64_t> sums(std::size_t{1} << core.rounds, 0);
  for (Rank place = 0; place < sums.size(); ++place) {
    for (std::uint32_t round = 0; round < core.rounds; ++round) {
      const Operand group = core.group(Buffer::output, place, round);
      sums[place] += before[group.block + group.blocks] - before[group.block];
    }
  }
  return sums;
}

std::uint64_t largest_group_sum(const Problem& problem, const PowerOfTwoCore& core) {
  if (!problem.block_counts.empty()) {
    const std::vector<std::uint64_t> sums = group_sums(problem, core);
    return *std::max_element(sums.begin(), sums.end());
  }
  // The lowest places stand for two ranks each, so place 0 has the largest sum.
  std::uint64_t blocks = 0;
  for (std::uint32_t round = 0; round < core.rounds; ++round) {
    blocks += core.group(Buffer::output, 0, round).blocks;
  }
  return blocks * problem.count;
}

}  // namespace ccoll
