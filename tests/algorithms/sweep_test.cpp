// SPDX-License-Identifier: Apache-2.0

/// Every algorithm at every size, through the verifier.

#include <catch2/catch.hpp>
#include <random>

#include "algorithms/sweep.hpp"

namespace ccoll {
namespace {

void sweep(Rank first, Rank last) {
  for (const CatalogueEntry& entry : catalogue()) {
    for (Rank size = first; size <= last; ++size) {
      for (const Rank root : test::roots_of(entry.kind, size)) {
        INFO(test::name_of(entry) << ", size " << size << ", root " << root);
        CHECK(test::judge_all(entry, size, root) == "");
      }
    }
  }
}

TEST_CASE("every algorithm is proven at every size up to 48, and costs what its formulas say",
          "[algorithms][property]") {
  sweep(1, 48);
}

TEST_CASE("every algorithm is proven at every size up to 128", "[algorithms][property][.slow]") {
  sweep(49, 128);
}

void sample(Rank largest, int draws) {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const CatalogueEntry& entry : catalogue()) {
    for (int draw = 0; draw < draws; ++draw) {
      Problem problem;
      problem.kind = entry.kind;
      problem.size = std::uniform_int_distribution<Rank>(129, largest)(random);
      if (test::is_rooted(entry.kind)) {
        problem.root = std::uniform_int_distribution<Rank>(0, problem.size - 1)(random);
      }
      problem.count = std::uniform_int_distribution<std::uint64_t>(0, 2)(random);
      if (entry.kind == Kind::barrier) problem.count = 1;
      const Choice choice{entry.algorithm, 1, 1};
      INFO(test::describe(problem, choice));
      CHECK(test::judge(entry, problem, choice) == "");
    }
  }
}

TEST_CASE("every algorithm is proven at a random size up to 256", "[algorithms][property]") {
  sample(256, 1);
}

TEST_CASE("every algorithm is proven at random sizes up to 1,024",
          "[algorithms][property][.slow]") {
  sample(1024, 2);
}

/// The program of one step less: the first, the last or the middle one of some lane.
Program without_step(Program program, std::size_t lane, std::size_t step) {
  auto& steps = program.lanes[lane].steps;
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(step));
  return program;
}

TEST_CASE("an algorithm that lacks any one step is rejected", "[algorithms][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank size : {2U, 5U}) {
      Problem problem;
      problem.kind = entry.kind;
      problem.size = size;
      problem.count = entry.kind == Kind::barrier ? 1 : 10;
      const Choice choice{entry.algorithm, 1, 3};
      for (Rank victim = 0; victim < size; ++victim) {
        const Program whole = make_program(problem, choice, victim);
        for (std::size_t lane = 0; lane < whole.lanes.size(); ++lane) {
          for (std::size_t step = 0; step < whole.lanes[lane].steps.size(); ++step) {
            const Program cut = without_step(whole, lane, step);
            const Report report = verify(problem, choice, [&](Rank rank) {
              return rank == victim ? cut : make_program(problem, choice, rank);
            });
            INFO(test::describe(problem, choice)
                 << ": rank " << victim << " lane " << lane << " without step " << step);
            CHECK_FALSE(report.ok());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ccoll
