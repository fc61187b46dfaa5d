// SPDX-License-Identifier: Apache-2.0
#include "schedule/problem.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "verify/samples.hpp"

namespace ccoll {
namespace {

TEST_CASE("blocks and windows: every element is in exactly one slice",
          "[schedule][problem][property]") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    Problem problem;
    problem.kind = static_cast<Kind>(random() % 9);
    problem.size = 1 + static_cast<Rank>(random() % 9);
    problem.count = random() % 40;
    const bool whole = problem.kind <= Kind::broadcast || problem.kind == Kind::barrier;
    const auto blocks = whole ? 1 + static_cast<std::uint32_t>(random() % 12) : problem.size;
    if (!whole && random() % 2 == 0) {
      for (Rank rank = 0; rank < problem.size; ++rank) problem.block_counts.push_back(random() % 9);
    }
    const Choice choice{Algorithm::ring, 1, 1 + random() % 10};
    const std::uint64_t windows = window_count(problem, blocks, choice);
    CAPTURE(problem.kind, problem.count, blocks, choice.slice_elems, windows);
    std::uint64_t offset = 0;
    bool last_window_used = windows == 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      REQUIRE(block_offset(problem, blocks, block) == offset);
      std::uint64_t covered = 0;
      for (std::uint64_t window = 0; window < windows; ++window) {
        const Slice slice = slice_of(problem, blocks, block, window, choice);
        if (slice.elems != 0) REQUIRE(slice.first == covered);
        REQUIRE(slice.elems <= choice.slice_elems);
        covered += slice.elems;
        if (window + 1 == windows && slice.elems != 0) last_window_used = true;
      }
      REQUIRE(covered == block_elems(problem, blocks, block));
      REQUIRE(slice_of(problem, blocks, block, windows, choice).elems == 0);
      REQUIRE(slice_of(problem, blocks, block, UINT64_MAX, choice).elems == 0);
      offset += covered;
    }
    REQUIRE(last_window_used);
    if (whole) REQUIRE(offset == problem.count);
  }
}

TEST_CASE("a rank's view: of an all_to_all its row and its column, of a gather its own block",
          "[schedule][problem]") {
  Problem whole;
  whole.kind = Kind::all_to_all;
  whole.size = 3;
  whole.block_counts = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Problem view = view_of(whole, 1);
  CHECK(view.block_counts == std::vector<std::uint64_t>{4, 5, 6});
  CHECK(view.output_counts == std::vector<std::uint64_t>{2, 5, 8});
  CHECK(block_elems(view, 3, 2) == 6);
  CHECK(block_offset(view, 3, 2) == 9);
  CHECK(block_elems(view, 3, 2, Buffer::output) == 8);
  CHECK(block_offset(view, 3, 2, Buffer::output) == 7);
  CHECK(window_count(view, 3, {Algorithm::pairwise, 1, 3}) == 3);
  CHECK(slice_of(view, 3, 2, 2, {Algorithm::pairwise, 1, 3}, Buffer::output).elems == 2);
  CHECK(slice_of(view, 3, 2, 2, {Algorithm::pairwise, 1, 3}).elems == 0);

  whole.kind = Kind::gather;
  whole.root = 2;
  whole.block_counts = {1, 2, 3};
  CHECK(view_of(whole, 1).block_counts == std::vector<std::uint64_t>{0, 2, 0});
  CHECK(view_of(whole, 2) == whole);
  whole.kind = Kind::all_gather;
  CHECK_FALSE(sizes_are_private(whole));
  CHECK(view_of(whole, 1) == whole);
}

TEST_CASE("striped: a copy's lanes refer to the same copy's lanes, whoever has how many",
          "[schedule][problem]") {
  const auto programs = samples::tree();
  const Program root = striped(programs[0], 3);
  const Program leaf = striped(programs[1], 3);
  REQUIRE(root.lanes.size() == 6);
  CHECK(root.stripes == 3);
  for (std::uint16_t copy = 0; copy < 3; ++copy) {
    CHECK(root.lanes[copy].stripe == copy);
    CHECK(root.lanes[3 + copy].stripe == copy);
    CHECK(root.lanes[copy].steps[0].receives[0].lane == copy);
    CHECK(root.lanes[3 + copy].steps[0].after->lane == copy);
    CHECK(leaf.lanes[3 + copy].steps[0].receives[0].lane == 3 + copy);
  }
  CHECK(striped(programs[0], 1) == programs[0]);
}

}  // namespace
}  // namespace ccoll
