// SPDX-License-Identifier: Apache-2.0
#include "algorithms/common.hpp"

#include <algorithm>
#include <utility>

namespace ccoll {

std::uint64_t numbers_with_bit(std::uint32_t bit, std::uint64_t below) {
  const std::uint64_t value = std::uint64_t{1} << bit;
  return below / (2 * value) * value + std::max(below % (2 * value), value) - value;
}

Program empty_program(const Problem& problem, Rank rank, std::uint32_t blocks) {
  Program program;
  program.rank = rank;
  program.size = problem.size;
  program.blocks = blocks;
  return program;
}

Program one_lane(const Problem& problem, Rank rank, std::uint32_t blocks, Lane lane) {
  Program program = empty_program(problem, rank, blocks);
  program.lanes.push_back(std::move(lane));
  return program;
}

Program program_alone(const Problem& problem) {
  Step step{.local = {input(0)}, .store = {output(0)}, .finish = reduces(problem.kind)};
  return one_lane(problem, 0, 1, {.steps = {std::move(step)}});
}

BlockSizes block_sizes(const Problem& problem, std::uint32_t blocks) {
  const std::uint64_t count = problem.count;
  if (divides_whole_buffer(problem.kind)) {
    return {.total = count,
            .largest = (count + blocks - 1) / blocks,
            .smallest = count / blocks,
            .present = std::min<std::uint64_t>(count, blocks)};
  }
  if (problem.block_counts.empty()) {
    return {.total = count * blocks,
            .largest = count,
            .smallest = count,
            .present = count > 0 ? blocks : 0};
  }
  BlockSizes sizes{.smallest = problem.block_counts.front()};
  for (const std::uint64_t elems : problem.block_counts) {
    sizes.total += elems;
    sizes.largest = std::max(sizes.largest, elems);
    sizes.smallest = std::min(sizes.smallest, elems);
    sizes.present += elems > 0 ? 1 : 0;
  }
  return sizes;
}

namespace {

void count(Load& busiest, Load& total, const Load& load) {
  busiest.messages = std::max(busiest.messages, load.messages);
  busiest.elems_sent = std::max(busiest.elems_sent, load.elems_sent);
  busiest.elems_repeated = std::max(busiest.elems_repeated, load.elems_repeated);
  busiest.elems_reduced = std::max(busiest.elems_reduced, load.elems_reduced);
  total.messages += load.messages;
  total.elems_sent += load.elems_sent;
  total.elems_repeated += load.elems_repeated;
  total.elems_reduced += load.elems_reduced;
}

}  // namespace

void count_rank(Theory& theory, const Load& load, const Load& crossing) {
  count(theory.busiest, theory.total, load);
  if (!theory.across) theory.across.emplace();
  count(theory.across->busiest, theory.across->total, crossing);
}

bool moves_nothing(const Problem& problem) {
  return problem.size == 1 || block_sizes(problem, problem.size).total == 0;
}

}  // namespace ccoll
