// SPDX-License-Identifier: Apache-2.0

/// Computing symmetric parts once gives the same result as computing each of them.

#include "simulated.hpp"
#include "support/effort.hpp"

namespace ccoll::sim {
namespace {

using namespace test;

std::vector<Network> networks() {
  Network oversubscribed = busy_network(0);
  oversubscribed.moved_by_ranks = true;
  oversubscribed.inside.sender_share = 0.4;
  Network threads = oversubscribed;
  threads.lent_in_place = true;
  oversubscribed.cores_per_node = 3;
  return {plain_network(),
          busy_network(0),
          busy_network(0, 1, false),
          busy_network(1),
          busy_network(3, 2),
          busy_network(4, 3, false),
          oversubscribed,
          threads};
}

/// Sizes that allow shortcuts, and sizes that do not.
std::vector<std::uint64_t> counts_for(const CatalogueEntry& entry, Rank size) {
  if (entry.kind == Kind::barrier) return {1};
  if (!divides_whole_buffer(entry.kind)) return {1, 50};
  return {1, size, size * 12ULL, size * 40ULL + 5};
}

struct Case {
  Problem problem;
  Choice choice;
  std::string name;
};

std::vector<Case> cases(Rank size, const Network& network) {
  std::vector<Case> cases;
  for (const CatalogueEntry& entry : catalogue()) {
    const bool applies =
        !entry.by_host || !placed_on(network, problem_of(entry.kind, size, 1)).host_of.empty();
    if (!applies) continue;
    for (const std::uint64_t count : counts_for(entry, size)) {
      for (const std::uint16_t lanes : {1, 2}) {
        const Choice choice{entry.algorithm, lanes, 4};
        cases.push_back({problem_of(entry.kind, size, count), choice,
                         fmt::format("{} {} n={} count={} lanes={}", to_string(entry.algorithm),
                                     to_string(entry.kind), size, count, lanes)});
      }
    }
  }
  return cases;
}

TEST_CASE("shortcuts give the times of the plain way", "[sim][property]") {
  const std::vector<Rank> few{3, 8, 12}, usual{2, 3, 6, 8, 12, 13},
      many{2, 3, 6, 8, 12, 13, 24, 30};
  const std::vector<Rank> sizes = testing::by_effort(few, usual, many);
  std::uint64_t folded = 0, one_by_one = 0;
  for (const Network& network : networks()) {
    for (const Rank size : sizes) {
      for (const Case& one : cases(size, network)) {
        const Simulated quick = simulated(network, one.problem, one.choice);
        const Simulated plain = simulated(network, one.problem, one.choice, {.plain = true});
        INFO(one.name << "\n" << to_text(network));
        CHECK(quick.outcome.ready == plain.outcome.ready);
        CHECK(quick.outcome.returned == plain.outcome.returned);
        folded += quick.outcome.steps;
        one_by_one += plain.outcome.steps;
      }
    }
  }
  CHECK(folded < one_by_one);
}

TEST_CASE("repeating windows are skipped, and nothing changes by that", "[sim][property]") {
  std::uint64_t skipped = 0;
  for (const Network& network : networks()) {
    for (const CatalogueEntry& entry : catalogue()) {
      const auto windows = testing::by_effort(3U, 10U, 30U);
      const Problem problem = problem_of(
          entry.kind, 8, divides_whole_buffer(entry.kind) ? 800 * windows + 3 : 60 * windows + 1);
      if (entry.kind == Kind::barrier) continue;
      if (entry.by_host && placed_on(network, problem).host_of.empty()) continue;
      for (const std::uint16_t lanes : {1, 3}) {
        const Choice choice{entry.algorithm, lanes, 4};
        const Simulated quick = simulated(network, problem, choice);
        const Simulated plain = simulated(network, problem, choice, {.plain = true});
        INFO(to_string(entry.algorithm)
             << " " << to_string(entry.kind) << " lanes " << lanes << "\n"
             << to_text(network));
        CHECK(quick.outcome.ready == plain.outcome.ready);
        CHECK(quick.outcome.returned == plain.outcome.returned);
        CHECK(plain.outcome.windows_skipped == 0);
        skipped += quick.outcome.windows_skipped > 0 ? 1 : 0;
      }
    }
  }
  CHECK(skipped > 50);
}

TEST_CASE("the same question has the same answer", "[sim][property]") {
  const Network network = busy_network(4, 2);
  for (const Case& one : cases(12, network)) {
    const Outcome first = simulated(network, one.problem, one.choice).outcome;
    const Outcome second = simulated(network, one.problem, one.choice).outcome;
    INFO(one.name);
    CHECK(first.ready == second.ready);
    CHECK(first.steps == second.steps);
  }
}

TEST_CASE("longer latencies, slower links and longer buffers never make a ring or a tree faster",
          "[sim][property]") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::double_tree}) {
    for (const Rank size : {5U, 8U, 16U}) {
      const auto time = [&](const Network& network, std::uint64_t count) {
        return simulated(network, problem_of(Kind::all_reduce, size, count), {algorithm, 1, 64})
            .outcome.ready;
      };
      const Network base = busy_network(4);
      Network later = base;
      later.across.latency_ns *= 2;
      Network slower = base;
      slower.nic_bytes_per_s /= 2;
      slower.across.bandwidth_bytes_per_s /= 2;
      Network weaker = base;
      weaker.reduce_bytes_per_s /= 2;
      INFO(to_string(algorithm) << " n=" << size);
      for (const std::uint64_t count : {16U, 160U, 1600U}) {
        CHECK(time(later, count) > time(base, count));
        CHECK(time(slower, count) > time(base, count));
        CHECK(time(weaker, count) > time(base, count));
        CHECK(time(base, 2 * count) > time(base, count));
      }
    }
  }
}

}  // namespace
}  // namespace ccoll::sim
