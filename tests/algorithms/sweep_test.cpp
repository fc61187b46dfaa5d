// SPDX-License-Identifier: Apache-2.0

/// Runs every algorithm at every size through the verifier.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/sweep.hpp"
#include "support/effort.hpp"

namespace ccoll {
namespace {

/// Judges every algorithm at sizes 1 to `last`, with one thread per core; returns the errors.
std::vector<std::string> sweep(Rank last) {
  std::mutex mutex;
  std::vector<std::string> wrong;  // guarded by mutex
  std::atomic<std::size_t> next{0};
  const auto entries = catalogue();
  const auto work = [&] {
    // Largest sizes first, so that the threads end together.
    for (std::size_t i = next++; i < entries.size() * last; i = next++) {
      const CatalogueEntry& entry = entries[i % entries.size()];
      const auto size = static_cast<Rank>(last - i / entries.size());
      for (const testing::HostOf& hosts : testing::host_layouts(entry, size)) {
        for (const Rank root : test::roots_of(entry.kind, size)) {
          const std::string found = test::judge_all(entry, size, root, hosts);
          if (found.empty()) continue;
          const std::lock_guard lock(mutex);
          wrong.push_back(test::name_of(entry) + ": " + found);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST_CASE("every algorithm is proven at every size, and costs what its formulas say",
          "[algorithms][property]") {
  for (const std::string& wrong : sweep(testing::by_effort<Rank>(11, 64, 128))) FAIL_CHECK(wrong);
}

void sample(Rank smallest, Rank largest, int draws) {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const CatalogueEntry& entry : catalogue()) {
    for (int draw = 0; draw < draws; ++draw) {
      Problem problem;
      problem.kind = entry.kind;
      problem.size = std::uniform_int_distribution<Rank>(smallest, largest)(random);
      if (test::is_rooted(entry.kind)) {
        problem.root = std::uniform_int_distribution<Rank>(0, problem.size - 1)(random);
      }
      if (entry.by_host) problem.host_of = testing::random_hosts(problem.size, random);
      problem.count = std::uniform_int_distribution<std::uint64_t>(0, 2)(random);
      if (entry.kind == Kind::barrier) problem.count = 1;
      const Choice choice{entry.algorithm, 1, 1};
      INFO(test::describe(problem, choice));
      CHECK(test::judge(entry, problem, choice) == "");
    }
  }
}

TEST_CASE("algorithms that know of hosts are proven on any", "[algorithms][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const CatalogueEntry& entry : catalogue()) {
    for (int draw = 0; entry.by_host && draw < testing::by_effort(3, 40, 2000); ++draw) {
      const auto size = std::uniform_int_distribution<Rank>(2, 24)(random);
      const auto roots = test::roots_of(entry.kind, size);
      INFO("seed " << seed);
      CHECK(test::judge_all(entry, size, roots[random() % roots.size()],
                            testing::random_hosts(size, random)) == "");
    }
  }
}

TEST_CASE("every algorithm is proven at random sizes up to 1,024", "[algorithms][property]") {
  if (testing::reduced()) return sample(129, 140, 1);
  sample(65, 128, 3);
  sample(129, 1024, testing::by_effort(1, 1, 10));
}

/// The program without one step: the first, the last or the middle one of some lane.
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
      problem.host_of = testing::host_layouts(entry, size).back();
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
