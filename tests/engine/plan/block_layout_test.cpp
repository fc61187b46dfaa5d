// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/block_layout.hpp"

#include <catch2/catch.hpp>
#include <random>

using namespace ccoll;

namespace {

PlanRequest request_of(Kind kind, Rank size, Rank rank, std::uint64_t count) {
  PlanRequest request;
  request.problem.kind = kind;
  request.problem.size = size;
  request.problem.count = count;
  request.program.rank = rank;
  request.program.size = size;
  request.program.blocks = size;
  request.choice.slice_elems = 4;
  request.type = DataType::float32;
  return request;
}

BlockPlace place(Buffer buffer, std::uint32_t block) { return {buffer, block, 0}; }

}  // namespace

TEST_CASE("block layout: blocks follow each other in the buffers that hold all of them",
          "[engine][unit]") {
  const BlockLayout gathers(request_of(Kind::all_gather, 3, 1, 10));
  CHECK(gathers.windows() == 3);
  CHECK(gathers.longest() == 10);
  CHECK(gathers.of(place(Buffer::input, 1)).offset == 0);  // the input is the own block alone
  CHECK(gathers.of(place(Buffer::output, 2)).offset == 20);
  CHECK(gathers.bytes_of(Buffer::input) == 40);
  CHECK(gathers.bytes_of(Buffer::output) == 120);

  // The first blocks of a buffer that is cut are longer by one element.
  const BlockLayout reduces(request_of(Kind::all_reduce, 3, 1, 11));
  CHECK(reduces.of(place(Buffer::scratch, 1)).offset == 4);
  CHECK(reduces.of(place(Buffer::output, 2)).elems == 3);
  CHECK(reduces.bytes_of(Buffer::output) == 44);

  CHECK(BlockLayout(request_of(Kind::gather, 3, 1, 10)).bytes_of(Buffer::output) == 0);
}

TEST_CASE("block layout: takes the sizes of another run", "[engine][unit]") {
  auto request = request_of(Kind::all_gather, 3, 0, 4);
  request.problem.block_counts = {4, 4, 4};
  BlockLayout layout(request);
  PlanRun run;
  run.block_counts = {1, 9, 0};
  CHECK_FALSE(layout.has_sizes_of(run));
  CHECK(layout.windows_with(run.block_counts, {}).count() == 3);
  CHECK(layout.windows() == 1);
  layout.take_sizes_of(run);
  CHECK(layout.has_sizes_of(run));
  CHECK(layout.windows() == 3);
  CHECK(layout.of(place(Buffer::output, 2)).offset == 10);
}

TEST_CASE("block layout: a step's volume is the sum over its lane's windows",
          "[engine][property]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; i++) {
    auto request = request_of(Kind::all_reduce, 4, 0, random() % 90);
    request.program.stripes = static_cast<std::uint16_t>(1 + random() % 3);
    const BlockLayout layout(request);
    ReadyLane lane;
    lane.stripe = random() % request.program.stripes;
    auto& step = lane.steps.emplace_back();
    for (auto parts = 1 + random() % 3; parts > 0; parts--)
      step.local.push_back(place(Buffer::input, static_cast<std::uint32_t>(random() % 4)));
    const auto end = random() % 8;
    StepVolume expected;
    for (auto window = lane.stripe; window < end; window += request.program.stripes) {
      std::uint64_t elems = 0;
      for (const auto& part : step.local)
        elems +=
            slice_of(layout.problem(), 4, part.block, window, request.choice, part.buffer).elems;
      expected.add({elems > 0 ? 1U : 0U, elems * 4}, 1);
    }
    CAPTURE(i, request.problem.count, lane.stripe, end);
    const auto volume = layout.volume_of(lane, 0, end);
    CHECK(volume.messages == expected.messages);
    CHECK(volume.bytes == expected.bytes);
  }
}
