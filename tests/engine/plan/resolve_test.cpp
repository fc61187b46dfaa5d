// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/resolve.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/inproc_ranks.hpp"

using namespace ccoll;

namespace {

PlanRequest request_of(Kind kind, Algorithm algorithm, Rank size, Rank rank, std::uint64_t count,
                       std::uint64_t slice_elems = 64) {
  PlanRequest request;
  request.problem.kind = kind;
  request.problem.size = size;
  request.problem.count = count;
  request.choice = {algorithm, 1, slice_elems};
  request.program = make_program(request.problem, request.choice, rank);
  request.type = DataType::float32;
  return request;
}

}  // namespace

TEST_CASE("resolve: each link is there once, and own data has its place among the sources",
          "[engine][unit]") {
  test::Links links(3, 5);
  const auto request = request_of(Kind::all_reduce, Algorithm::one_shot, 3, 1, 4);
  const auto program = resolve(request, links.of(1)).value();
  CHECK(program.outgoing.size() == 2);
  CHECK(program.incoming.size() == 2);
  CHECK(program.most_sources == 3);
  bool found = false;
  for (const auto& lane : program.lanes) {
    for (const auto& step : lane.steps) {
      if (step.receives.size() != 2) continue;
      found = true;
      CHECK(step.combines);
      CHECK(step.local_position == 1);  // between those of ranks 0 and 2
    }
  }
  CHECK(found);
}

TEST_CASE("resolve: a small exchange of two ranks gives, then takes", "[engine][unit]") {
  test::Links links(2, 5);
  const auto request = request_of(Kind::all_reduce, Algorithm::recursive_doubling, 2, 0, 2);
  auto program = resolve(request, links.of(0)).value();
  REQUIRE(make_short(program.lanes, BlockLayout(request)));
  std::vector<ShortShape> shapes;
  for (const auto& lane : program.lanes)
    for (const auto& step : lane.short_steps) {
      CHECK(step.bytes == 8);
      shapes.push_back(step.shape);
    }
  CHECK(shapes == std::vector{ShortShape::gives, ShortShape::takes});
}

TEST_CASE("resolve: not all runs are short", "[engine][unit]") {
  test::Links links(4, 5);
  const auto is_short = [&](const PlanRequest& request) {
    auto program = resolve(request, links.of(request.program.rank)).value();
    return make_short(program.lanes, BlockLayout(request));
  };
  const auto windows = request_of(Kind::all_reduce, Algorithm::ring, 4, 0, 64, 4);
  CHECK_FALSE(is_short(windows));
  CHECK(is_short(request_of(Kind::all_reduce, Algorithm::ring, 4, 0, 64)));
  auto ragged = request_of(Kind::all_gather, Algorithm::ring, 4, 0, 8);
  CHECK(is_short(ragged));
  ragged.problem.block_counts = {1, 2, 3, 4};
  CHECK_FALSE(is_short(ragged));
}
