// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "algorithms/sweep.hpp"

namespace ccoll {
namespace {

Problem problem_of(Kind kind, Rank size, std::uint64_t count) {
  Problem problem;
  problem.kind = kind;
  problem.size = size;
  problem.count = kind == Kind::barrier ? 1 : count;
  return problem;
}

TEST_CASE("choosing: every kind, size and count gets a choice whose messages fit a slot",
          "[algorithms][property]") {
  for (int k = 0; k <= static_cast<int>(Kind::barrier); ++k) {
    for (const Rank size : {1U, 2U, 3U, 7U, 8U, 64U, 1000U, 24576U}) {
      for (const std::uint64_t count : {0ULL, 1ULL, 1000ULL, 1ULL << 20, 1ULL << 33}) {
        for (const std::size_t elem_bytes : {1U, 8U}) {
          const Problem problem = problem_of(static_cast<Kind>(k), size, count);
          const CostTable costs;
          const Chosen chosen = choose(problem, elem_bytes, costs);
          INFO(test::describe(problem, chosen.choice));
          const CatalogueEntry* entry = find_algorithm(problem.kind, chosen.choice.algorithm);
          REQUIRE(entry != nullptr);
          CHECK(chosen.choice.slice_elems >= 1);
          CHECK(chosen.choice.lanes >= 1);
          CHECK(chosen.choice.slice_elems * elem_bytes *
                    entry->theory(problem).blocks_per_message <=
                costs.slot_bytes);
          CHECK_FALSE(chosen.reason().empty());
          CHECK(chosen.candidates.front().algorithm == chosen.choice.algorithm);
        }
      }
    }
  }
}

TEST_CASE("choosing: where ports bound long calls, each has a lane", "[algorithms]") {
  CostTable costs;
  costs.cores_per_rank = 4;
  costs.links.step_ns = costs.links.latency_ns = 10;
  costs.inside = costs.links;
  costs.reduce_bytes_per_s = costs.inside.bandwidth_bytes_per_s = 1e13;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == Kind::barrier) continue;
    Problem problem = problem_of(entry.kind, 8, 256 << 20);
    if (entry.by_host) problem.host_of = {0, 0, 0, 0, 1, 1, 1, 1};
    const auto chosen_with = [&](std::uint16_t rails, std::optional<std::uint16_t> lanes = {}) {
      costs.rails = rails;
      return choose(problem, 4, costs, {.algorithm = entry.algorithm, .max_lanes = lanes});
    };
    const auto ns_of = [&](const Chosen& chosen) {
      const auto is_it = [&](const Candidate& each) { return each.algorithm == entry.algorithm; };
      return std::ranges::find_if(chosen.candidates, is_it)->predicted_ns;
    };
    const Chosen one = chosen_with(1);
    for (const std::uint16_t rails : {2, 4, 8}) {
      const Chosen chosen = chosen_with(rails);
      INFO(test::describe(problem, chosen.choice));
      CHECK(chosen.choice.lanes >= rails);
      CHECK(ns_of(one) / ns_of(chosen) == Approx(rails).epsilon(0.1));
      CHECK(chosen_with(rails, 1).choice.lanes == 1);
    }
    // A lane uses one port at a time, however many there are.
    CHECK(ns_of(chosen_with(8, 1)) >= ns_of(chosen_with(1, 1)) * 0.999);
  }
}

TEST_CASE("choosing: ports never take more queue pairs than there is memory for", "[algorithms]") {
  CostTable costs;
  costs.rails = 8;
  for (const Rank size : {8U, 16U, 17U, 24U, 33U, 64U, 65U, 100U}) {
    for (const CatalogueEntry& entry : catalogue()) {
      if (entry.kind == Kind::barrier) continue;
      Problem problem = problem_of(entry.kind, size, 256 << 20);
      const Chosen chosen =
          choose(problem, 4, costs, {.algorithm = entry.algorithm, .max_lanes = {}});
      std::set<Rank> peers;
      for (const Lane& lane : make_program(problem, chosen.choice, size / 2).lanes)
        for (const Step& step : lane.steps) {
          peers.insert(step.sends.begin(), step.sends.end());
          for (const Receive& receive : step.receives) peers.insert(receive.peer);
        }
      INFO(test::describe(problem, chosen.choice));
      CHECK((chosen.choice.lanes == 1 || peers.size() * chosen.choice.lanes <= 127));
    }
  }
}

TEST_CASE("choosing: more elements are never predicted to take less time",
          "[algorithms][property]") {
  for (const double cores : {1.0, 0.25}) {
    CostTable costs;
    costs.cores_per_rank = cores;
    for (const CatalogueEntry& entry : catalogue()) {
      if (entry.kind == Kind::barrier) continue;
      double before = 0;
      for (std::uint64_t count = 1; count <= 1ULL << 28; count *= 4) {
        Problem problem = problem_of(entry.kind, 8, count);
        if (entry.by_host) problem.host_of = {0, 0, 0, 1, 1, 1, 2, 2};
        const Chosen chosen = choose(problem, 4, costs);
        INFO(test::describe(problem, chosen.choice));
        CHECK(chosen.candidates.front().predicted_ns >= before * 0.999);
        before = chosen.candidates.front().predicted_ns;
      }
    }
  }
}

struct Expected {
  Kind kind;
  Rank size;
  std::uint64_t bytes;
  std::vector<Algorithm> any_of;
};

TEST_CASE("choosing: what anyone would expect", "[algorithms]") {
  using enum Algorithm;
  const std::vector<Expected> kTable = {
      {Kind::all_reduce, 4, 8, {one_shot}},
      {Kind::all_reduce, 8, 64 << 20, {ring, two_shot}},
      {Kind::all_reduce, 64, 8, {recursive_doubling, tree, double_tree}},
      {Kind::all_reduce, 1024, 1 << 10, {recursive_doubling, tree, double_tree}},
      // It sends fewer bytes than a tree and fewer messages than a ring.
      {Kind::all_reduce, 1024, 1 << 20, {recursive_halving}},
      {Kind::reduce_scatter, 64, 1 << 10, {recursive_halving}},
      {Kind::all_gather, 64, 64, {recursive_doubling, bruck}},
      {Kind::all_gather, 100, 64, {bruck}},
      {Kind::all_to_all, 64, 8, {bruck}},
      {Kind::all_to_all, 64, 64 << 10, {pairwise}},
      {Kind::broadcast, 4, 8, {linear}},
      {Kind::broadcast, 1024, 8, {binomial, tree, double_tree}},
      {Kind::broadcast, 8, 256 << 20, {ring, double_tree}},
      {Kind::reduce, 8, 256 << 20, {ring, double_tree}},
      {Kind::gather, 4, 1 << 20, {linear}},
      {Kind::all_to_all, 8, 1 << 20, {pairwise}},
      {Kind::barrier, 100, 1, {dissemination}},
  };
  for (const Expected& row : kTable) {
    const Chosen chosen = choose(problem_of(row.kind, row.size, row.bytes), 1, {});
    INFO(to_string(row.kind) << " of " << row.bytes << " bytes over " << row.size << ": "
                             << chosen.reason());
    const Algorithm got = chosen.choice.algorithm;
    CHECK(std::find(row.any_of.begin(), row.any_of.end(), got) != row.any_of.end());
  }
}

TEST_CASE("choosing: what crosses between hosts decides", "[algorithms]") {
  using enum Algorithm;
  const std::vector<Expected> kTable = {
      {Kind::all_reduce, 32, 8, {leaders}},
      {Kind::all_reduce, 32, 64 << 20, {two_level, ring}},
      {Kind::all_reduce, 32, 1 << 20, {two_level}},
      {Kind::broadcast, 32, 8, {leaders}},
      {Kind::reduce, 32, 1 << 10, {leaders}},
      {Kind::all_gather, 32, 1 << 10, {two_level}},
      {Kind::reduce_scatter, 32, 1 << 10, {two_level}},
      {Kind::all_to_all, 32, 1 << 10, {two_level}},
      {Kind::barrier, 32, 1, {leaders}},
  };
  CostTable costs;
  costs.inside = {
      .latency_ns = 150, .bandwidth_bytes_per_s = 9e9, .sender_share = 1, .step_ns = 120};
  for (const Expected& row : kTable) {
    Problem problem = problem_of(row.kind, row.size, row.bytes);
    for (Rank rank = 0; rank < row.size; ++rank) problem.host_of.push_back(rank % 4);
    const Chosen chosen = choose(problem, 1, costs);
    INFO(to_string(row.kind) << " of " << row.bytes << " bytes: " << chosen.reason());
    CHECK(std::ranges::count(row.any_of, chosen.choice.algorithm) == 1);
  }
}

TEST_CASE("choosing: from one rank to another a message of one slice goes whole", "[algorithms]") {
  for (const Kind kind : {Kind::broadcast, Kind::reduce})
    for (const std::uint64_t bytes : {8, 4 << 10, 32 << 10, 128 << 10}) {
      const Problem problem = problem_of(kind, 2, bytes);
      const Chosen chosen = choose(problem, 1, {});
      INFO(to_string(kind) << " of " << bytes << " bytes: " << chosen.reason());
      for (Rank rank = 0; rank < 2; ++rank) {
        const Program program = make_program(problem, chosen.choice, rank);
        REQUIRE(program.lanes.size() == 1);
        CHECK(program.lanes.front().steps.size() == 1);
      }
      CHECK(window_count(problem, 1, chosen.choice) == 1);
    }
}

TEST_CASE("choosing: where ranks share cores, few messages win", "[algorithms]") {
  CostTable oversubscribed;
  oversubscribed.cores_per_rank = 2.0 / 64;
  const Chosen chosen = choose(problem_of(Kind::all_reduce, 64, 8), 1, oversubscribed);
  const Theory theory = find_algorithm(Kind::all_reduce, chosen.choice.algorithm)
                            ->theory(problem_of(Kind::all_reduce, 64, 8));
  INFO(chosen.reason());
  CHECK(theory.total.messages <= 4 * 64);
}

TEST_CASE("choosing: in memory, where ranks take turns, rounds cost more than messages",
          "[algorithms]") {
  CostTable memory;
  memory.cores_per_rank = 0.25;
  memory.is_memory = true;
  memory.links = {
      .latency_ns = 2000, .bandwidth_bytes_per_s = 9e9, .sender_share = 1, .step_ns = 200};
  CostTable wires = memory;
  wires.is_memory = false;
  const auto chosen = [](Kind kind, std::uint64_t bytes, const CostTable& costs) {
    return choose(problem_of(kind, 8, bytes), 4, costs).choice.algorithm;
  };
  CHECK(chosen(Kind::all_to_all, 64, memory) == Algorithm::pairwise);
  CHECK(chosen(Kind::all_to_all, 64, wires) == Algorithm::bruck);
  // The root writes once, and all others read that.
  CHECK(chosen(Kind::broadcast, 256 << 10, memory) == Algorithm::linear);
  CHECK(chosen(Kind::broadcast, 256 << 10, wires) != Algorithm::linear);
}

TEST_CASE("choosing: of what is as fast, what sends least often wins", "[algorithms]") {
  // Costs of one host's memory.
  CostTable costs;
  costs.links = {
      .latency_ns = 150, .bandwidth_bytes_per_s = 9e9, .sender_share = 1, .step_ns = 120};
  costs.inside = costs.links;
  int alike = 0;
  for (const Kind kind : {Kind::broadcast, Kind::reduce, Kind::all_reduce, Kind::all_gather}) {
    for (const Rank size : {2U, 3U, 8U}) {
      for (const std::uint64_t bytes : {8U, 32U << 10, 512U << 10, 8U << 20}) {
        const Problem problem = problem_of(kind, size, bytes);
        const Chosen chosen = choose(problem, 4, costs);
        const auto messages_of = [&](Algorithm algorithm) {
          return find_algorithm(kind, algorithm)->theory(problem).busiest.messages;
        };
        INFO(test::describe(problem, chosen.choice));
        for (const Candidate& other : chosen.candidates) {
          if (other.predicted_ns > chosen.candidates.front().predicted_ns * 1.0001) continue;
          alike += messages_of(other.algorithm) > messages_of(chosen.choice.algorithm);
          CHECK(messages_of(other.algorithm) >= messages_of(chosen.choice.algorithm));
        }
      }
    }
  }
  CHECK(alike > 0);
}

TEST_CASE("choosing: what sends most counts for less where receivers bear a part", "[algorithms]") {
  const CostTable wire;
  CostTable copies;
  copies.links.sender_share = 0.3;
  const auto predicted = [](Kind kind, Algorithm algorithm, const CostTable& costs) {
    const auto chosen = choose(problem_of(kind, 8, 1 << 20), 4, costs);
    return std::ranges::find(chosen.candidates, algorithm, &Candidate::algorithm)->predicted_ns;
  };
  CHECK(predicted(Kind::broadcast, Algorithm::linear, copies) <
        0.5 * predicted(Kind::broadcast, Algorithm::linear, wire));
  // All ranks send as much as they receive, so both ends pay equally.
  CHECK(predicted(Kind::all_gather, Algorithm::ring, copies) ==
        Approx(predicted(Kind::all_gather, Algorithm::ring, wire)));
}

TEST_CASE("choosing: what is forced is taken, or the reason says why not", "[algorithms]") {
  const Problem problem = problem_of(Kind::all_reduce, 8, 1 << 20);
  Problem on_hosts = problem;
  on_hosts.host_of = {0, 0, 0, 1, 1, 1, 2, 2};
  for (const Algorithm algorithm : algorithms_for(problem.kind)) {
    const bool by_host = find_algorithm(problem.kind, algorithm)->by_host;
    const Chosen chosen =
        choose(by_host ? on_hosts : problem, 4, {}, {.algorithm = algorithm, .max_lanes = 1});
    CHECK(chosen.choice.algorithm == algorithm);
    CHECK(chosen.choice.lanes == 1);
    if (!by_host) continue;
    const Chosen without = choose(problem, 4, {}, {.algorithm = algorithm, .max_lanes = {}});
    CHECK(without.choice == choose(problem, 4, {}).choice);
    CHECK(without.reason().find("all ranks share one host") != std::string::npos);
  }
  const Chosen other = choose(problem, 4, {}, {.algorithm = Algorithm::pairwise, .max_lanes = {}});
  CHECK(other.choice == choose(problem, 4, {}).choice);
  CHECK(other.reason().find("pairwise was asked for, but all_reduce has none") == 0);
}

TEST_CASE("choosing: a reason compares times only where they differ in print", "[algorithms]") {
  const std::regex fastest("fastest, ([0-9.]+) µs against ([0-9.]+) µs of");
  const std::regex alike("take ([0-9.]+) µs, little more than .* \\(([0-9.]+) µs\\)");
  int compared = 0;
  for (const int size : {2, 3, 4, 8, 16, 64})
    for (std::size_t count = 1; count <= std::size_t{1} << 22; count *= 4) {
      const auto reason = choose(problem_of(Kind::all_reduce, size, count), 4, {}).reason();
      CAPTURE(reason);
      std::smatch found;
      if (std::regex_search(reason, found, fastest)) {
        CHECK(std::stod(found[1]) < std::stod(found[2]));
        compared++;
      } else if (std::regex_search(reason, found, alike)) {
        CHECK(std::stod(found[1]) > std::stod(found[2]));
        compared++;
      } else {
        CHECK(reason.find(" µs, as is ") != std::string::npos);
      }
    }
  CHECK(compared > 0);
}

TEST_CASE("choosing: ragged blocks get what serves them, private ones without a look at them",
          "[algorithms]") {
  for (const Kind kind :
       {Kind::all_gather, Kind::reduce_scatter, Kind::gather, Kind::scatter, Kind::all_to_all}) {
    for (const Rank size : {1U, 2U, 5U, 64U}) {
      Problem whole = problem_of(kind, size, 0);
      const std::size_t n = size;
      for (std::size_t i = 0; i < (kind == Kind::all_to_all ? n * n : n); ++i) {
        whole.block_counts.push_back(i * 7919 % 100'000);
      }
      const Chosen first = choose(view_of(whole, 0), 4, {});
      INFO(test::describe(whole, first.choice));
      for (const Candidate& candidate : first.candidates) {
        CHECK(find_algorithm(kind, candidate.algorithm)->ragged);
      }
      for (Rank rank = 1; rank < size; ++rank) {
        CHECK(choose(view_of(whole, rank), 4, {}).choice == first.choice);
      }
      CHECK(choose(whole, 4, {}).choice == first.choice);
    }
  }
  Problem gather = problem_of(Kind::gather, 3, 0);
  gather.block_counts = {4, 5, 6};
  const Chosen forced = choose(gather, 4, {}, {.algorithm = Algorithm::binomial, .max_lanes = {}});
  CHECK(forced.choice.algorithm == Algorithm::linear);
  CHECK(forced.reason().find("binomial was asked for, but it needs equal blocks; linear") == 0);
}

TEST_CASE("explaining: the table names every candidate and marks the choice", "[algorithms]") {
  Problem problem = problem_of(Kind::all_reduce, 8, 1 << 20);
  problem.host_of = {0, 0, 0, 1, 1, 1, 2, 2};
  const std::string text = explain(problem, DataType::float32, {});
  INFO(text);
  for (const Algorithm algorithm : algorithms_for(problem.kind)) {
    CHECK(text.find(to_string(algorithm)) != std::string::npos);
  }
  CHECK(text.find("\n* ") != std::string::npos);
  CHECK(text.find("Chosen: ") != std::string::npos);
}

}  // namespace
}  // namespace ccoll
