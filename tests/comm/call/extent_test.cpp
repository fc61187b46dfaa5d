// SPDX-License-Identifier: Apache-2.0
// Extents of calls from two blocks, and the errors for blocks that do not fit each other.
#include "comm/call/extent.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::message_of;
using testing::run_ranks;

namespace {

constexpr Kind kKinds[] = {Kind::all_reduce, Kind::reduce,         Kind::broadcast,
                           Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all,
                           Kind::gather,     Kind::scatter};
constexpr auto kType = DataType::int32;

ConstBlock in(std::size_t count, DataType type = kType) { return {nullptr, count, type}; }
Block out(std::size_t count, DataType type = kType) { return {nullptr, count, type}; }

/// How many times the call's count the rank has in the buffer.
std::size_t parts(Kind kind, Buffer buffer, Rank size) {
  return divides_whole_buffer(kind) || holds_own_block_only(kind, buffer) ? 1 : size;
}

std::string refused(Kind kind, const ConstBlock& input, const Block& output, Place place) {
  const auto extent = extent_of(to_string(kind), kind, input, output, place);
  return extent ? "" : extent.error().message;
}

}  // namespace

TEST_CASE("extent: blocks fit at the count that the operation gives them, and at no other",
          "[comm][property]") {
  for (const auto kind : kKinds)
    for (const Rank size : {1U, 2U, 3U, 8U})
      for (const std::size_t count : {0UL, 1UL, 7UL, 1000UL}) {
        CAPTURE(to_string(kind), size, count);
        const auto ins = count * parts(kind, Buffer::input, size);
        const auto outs = count * parts(kind, Buffer::output, size);
        const Place root{true, size};
        CHECK(fitting_extent(kind, in(ins), out(outs), root) == Extent{count, kType});
        CHECK_FALSE(fitting_extent(kind, in(ins + 1), out(outs), root));
        CHECK_FALSE(fitting_extent(kind, in(ins), out(outs + 1), root));
        CHECK_FALSE(fitting_extent(kind, in(ins, DataType::float32), out(outs), root));
        CHECK_FALSE(refused(kind, in(ins + 1), out(outs), root).empty());
        CHECK_FALSE(refused(kind, in(ins), out(outs + 1), root).empty());
        // A block that a rank does not use is ignored, whatever its size.
        const Place other{false, size};
        if (is_roots_alone(kind, Buffer::input))
          CHECK(fitting_extent(kind, in(ins + 1, DataType::float64), out(outs), other) ==
                Extent{count, kType});
        if (is_roots_alone(kind, Buffer::output))
          CHECK(fitting_extent(kind, in(ins), out(outs + 1, DataType::float64), other) ==
                Extent{count, kType});
      }
}

TEST_CASE("extent: what does not fit is told by its numbers", "[comm][unit]") {
  const Place place{true, 4};
  CHECK(refused(Kind::all_reduce, in(3), out(4), place) ==
        "all_reduce: the input has 3 elements, the output 4; they must be equal");
  CHECK(refused(Kind::all_gather, in(3), out(13), place) ==
        "all_gather: 13 elements are not 4 ranks times 3; use all_gather_v");
  CHECK(refused(Kind::scatter, in(13), out(3), place) ==
        "scatter: 13 elements are not 4 ranks times 3; use scatter_v");
  CHECK(refused(Kind::all_to_all, in(7), out(7), place) ==
        "all_to_all: 7 elements do not divide evenly among 4 ranks; use all_to_all_v");
  CHECK(refused(Kind::reduce, in(3), out(3, DataType::float16), place) ==
        "reduce: the input is of int32, the output of float16; a call has one type");
}

TEST_CASE("extent: rows without gaps are plain memory, others take the general way",
          "[comm][unit]") {
  const Place place{true, 1};
  const auto rows = [](std::size_t count, std::size_t row, std::size_t stride) {
    return ConstBlock(nullptr, count, kType, row, stride);
  };
  CHECK(fitting_extent(Kind::all_reduce, rows(12, 3, 3), out(12), place) == Extent{12, kType});
  CHECK(refused(Kind::all_reduce, rows(12, 5, 5), out(12), place) ==
        "all_reduce: the input's 12 elements are not whole rows of 5 elements");
  CHECK(refused(Kind::all_reduce, rows(12, 3, 2), out(12), place) ==
        "all_reduce: the input's rows of 3 elements overlap, for its stride is 2");
  const auto gaps = extent_of("all_reduce", Kind::all_reduce, rows(12, 3, 8), out(12), place);
  REQUIRE(gaps);
  CHECK(*gaps == Extent{12, kType});
  CHECK_FALSE(fitting_extent(Kind::all_reduce, rows(12, 3, 8), out(12), place));
}

TEST_CASE("extent: every call refuses blocks that do not fit, and breaks nothing", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& world) {
    std::vector<std::int32_t> ints(8);
    std::vector<float> floats(8);
    const Block columns(ints.data(), 4, kType, 2, 1);
    const auto told = [&](const std::string& said, std::string_view what) {
      expect(said.find(what) != std::string::npos, said);
    };
    told(message_of([&] { world.all_reduce(ints, floats); }), "a call has one type");
    told(message_of([&] { world.all_reduce_async(columns).wait(); }), "overlap");
    told(message_of([&] { world.send(columns, 1 - world.rank()); }), "overlap");
    told(message_of([&] { world.recv(columns, 1 - world.rank()); }), "overlap");
    told(message_of([&] { world.all_gather_v(ints, std::vector{columns, columns}); }), "overlap");
    told(message_of([&] { world.broadcast(std::vector{BufferPair(columns)}, 0); }), "overlap");
    world.all_reduce(ints);
  });
  for (const auto& error : errors) CHECK(error == "");
}
