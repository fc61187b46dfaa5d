// SPDX-License-Identifier: Apache-2.0

/// The text form of each algorithm, for review: UPDATE_GOLDEN=1 writes what differs.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algorithms/sweep.hpp"
#include "schedule/text.hpp"

namespace ccoll {
namespace {

struct Golden {
  Kind kind;
  Algorithm algorithm;
  Rank size;
  testing::HostOf hosts = {};
};

std::string text_of(const Golden& golden) {
  Problem problem;
  problem.kind = golden.kind;
  problem.size = golden.size;
  problem.host_of = golden.hosts;
  problem.count = golden.kind == Kind::barrier ? 1 : 64;
  std::vector<Program> programs;
  for (Rank rank = 0; rank < golden.size; ++rank) {
    programs.push_back(make_program(problem, {golden.algorithm, 1, 64}, rank));
  }
  return to_string(programs);
}

TEST_CASE("the schedules are those of the golden files", "[algorithms][golden]") {
  const Golden kGolden[] = {
      {Kind::all_reduce, Algorithm::ring, 4},
      {Kind::reduce_scatter, Algorithm::ring, 4},
      {Kind::all_gather, Algorithm::ring, 4},
      {Kind::broadcast, Algorithm::ring, 4},
      {Kind::reduce, Algorithm::ring, 4},
      {Kind::all_reduce, Algorithm::tree, 7},
      {Kind::broadcast, Algorithm::tree, 7},
      {Kind::reduce, Algorithm::tree, 7},
      {Kind::all_reduce, Algorithm::double_tree, 7},
      {Kind::broadcast, Algorithm::double_tree, 7},
      {Kind::reduce, Algorithm::double_tree, 7},
      {Kind::all_reduce, Algorithm::recursive_doubling, 4},
      {Kind::all_reduce, Algorithm::recursive_doubling, 5},
      {Kind::all_gather, Algorithm::recursive_doubling, 4},
      {Kind::all_gather, Algorithm::recursive_doubling, 5},
      {Kind::all_reduce, Algorithm::recursive_halving, 4},
      {Kind::reduce_scatter, Algorithm::recursive_halving, 5},
      {Kind::all_gather, Algorithm::bruck, 5},
      {Kind::all_to_all, Algorithm::bruck, 5},
      {Kind::all_reduce, Algorithm::root_collects, 4},
      {Kind::all_gather, Algorithm::root_collects, 4},
      {Kind::reduce_scatter, Algorithm::root_collects, 4},
      {Kind::all_reduce, Algorithm::one_shot, 4},
      {Kind::all_gather, Algorithm::one_shot, 4},
      {Kind::reduce_scatter, Algorithm::one_shot, 4},
      {Kind::all_reduce, Algorithm::two_shot, 4},
      {Kind::all_to_all, Algorithm::pairwise, 4},
      {Kind::broadcast, Algorithm::linear, 4},
      {Kind::reduce, Algorithm::linear, 4},
      {Kind::gather, Algorithm::linear, 4},
      {Kind::scatter, Algorithm::linear, 4},
      {Kind::broadcast, Algorithm::binomial, 8},
      {Kind::reduce, Algorithm::binomial, 8},
      {Kind::gather, Algorithm::binomial, 5},
      {Kind::scatter, Algorithm::binomial, 5},
      {Kind::barrier, Algorithm::dissemination, 5},
      {Kind::all_reduce, Algorithm::leaders, 5, {0, 0, 1, 1, 1}},
      {Kind::broadcast, Algorithm::leaders, 5, {0, 0, 1, 1, 1}},
      {Kind::reduce, Algorithm::leaders, 5, {0, 0, 1, 1, 1}},
      {Kind::all_reduce, Algorithm::two_level, 5, {0, 0, 1, 1, 1}},
      {Kind::reduce_scatter, Algorithm::two_level, 5, {0, 0, 1, 1, 1}},
      {Kind::all_gather, Algorithm::two_level, 5, {0, 0, 1, 1, 1}},
      {Kind::all_to_all, Algorithm::two_level, 5, {0, 0, 1, 1, 1}},
  };
  for (const Golden& golden : kGolden) {
    const std::string path =
        fmt::format("{}/{}_{}_{}.txt", CCOLL_GOLDEN_DIR, to_string(golden.algorithm),
                    to_string(golden.kind), golden.size);
    const std::string text = text_of(golden);
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    std::stringstream file;
    file << std::ifstream(path).rdbuf();
    INFO(path << " (UPDATE_GOLDEN=1 writes it anew)");
    CHECK(file.str() == text);
    const auto parsed = parse_programs(text);
    REQUIRE(parsed);
    CHECK(to_string(*parsed) == text);
  }
}

}  // namespace
}  // namespace ccoll
