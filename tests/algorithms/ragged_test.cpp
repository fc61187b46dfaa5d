// SPDX-License-Identifier: Apache-2.0

/// Blocks of different sizes: runs every algorithm that supports them on random ones.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "algorithms/sweep.hpp"
#include "support/effort.hpp"

namespace ccoll {
namespace {

/// A whole problem with random sizes: mostly zeros, mostly equal, or a few very large ones.
Problem random_problem(const CatalogueEntry& entry, Rank size, std::mt19937& random) {
  Problem problem;
  problem.kind = entry.kind;
  problem.size = size;
  if (test::is_rooted(entry.kind)) problem.root = static_cast<Rank>(random() % size);
  if (entry.by_host) problem.host_of = testing::random_hosts(size, random);
  const std::size_t n = size;
  const std::uint32_t zeros = random() % 4;  // of 4
  const std::uint32_t largest = random() % 3 == 0 ? 60 : 5;
  for (std::size_t i = 0; i < (entry.kind == Kind::all_to_all ? n * n : n); ++i) {
    problem.block_counts.push_back(random() % 4 < zeros ? 0 : random() % largest);
  }
  return problem;
}

TEST_CASE("ragged blocks: proven over random sizes, and costing what the formulas say",
          "[algorithms][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  const int draws = testing::by_effort(5, 60, 1000);
  for (const CatalogueEntry& entry : catalogue()) {
    if (!entry.ragged) continue;
    for (int draw = 0; draw < draws; ++draw) {
      const auto size = static_cast<Rank>(1 + random() % 33);
      const Problem problem = random_problem(entry, size, random);
      const Choice choice{entry.algorithm, static_cast<std::uint16_t>(1 + random() % 2),
                          1 + random() % 9};
      CAPTURE(seed, draw);
      CHECK(test::judge(entry, problem, choice) == "");
    }
  }
}

TEST_CASE("ragged blocks: where sizes are private no program depends on them",
          "[algorithms][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const CatalogueEntry& entry : catalogue()) {
    for (Rank size = 1; entry.ragged && size <= 9; ++size) {
      const Problem whole = random_problem(entry, size, random);
      if (!sizes_are_private(whole)) continue;
      Problem equal = whole;
      equal.block_counts.clear();
      const Choice choice{entry.algorithm, 2, 3};
      for (Rank rank = 0; rank < size; ++rank) {
        CAPTURE(seed, rank);
        INFO(test::describe(whole, choice));
        CHECK(make_program(view_of(whole, rank), choice, rank) ==
              make_program(equal, choice, rank));
      }
    }
  }
}

TEST_CASE("ragged blocks: a program that takes a block for another is found", "[algorithms]") {
  Problem problem;
  problem.kind = Kind::all_to_all;
  problem.size = 3;
  problem.block_counts = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Choice choice{Algorithm::pairwise, 1, 16};
  const auto verdict = [&](Rank victim, auto&& change) {
    return verify(problem, choice, [&](Rank rank) {
      Program program = make_program(view_of(problem, rank), choice, rank);
      if (rank == victim) change(program);
      return program;
    });
  };
  CHECK(verdict(1, [](Program&) {}).ok());
  const Report stored = verdict(1, [](Program& p) { p.lanes[1].steps[0].store[0].block = 2; });
  CHECK(stored.text().find("blocks of 2 elements, expected are 8") != std::string::npos);
  CHECK_FALSE(verdict(2, [](Program& p) { p.lanes[0].steps[0].local[0].block = 1; }).ok());
  CHECK_FALSE(verdict(0, [](Program& p) { p.lanes[0].steps.pop_back(); }).ok());
}

}  // namespace
}  // namespace ccoll
