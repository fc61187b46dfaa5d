// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/repeats.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace ccoll {
namespace {

/// Buffers of calls.
std::array<std::byte, 64> buffer_a, buffer_b;

PlainCall call(Kind kind, std::size_t count, const void* input = buffer_a.data(),
               void* output = buffer_b.data()) {
  return {kind, DataType::uint8, ReduceOp::sum, 0, count, input, output};
}

/// Remembers such a call with 8 bytes of input and 8 of output; returns its operation.
Repeats::Pointer remember(Repeats& repeats, const PlainCall& made) {
  auto operation = std::make_shared<CollectiveOperation>();
  repeats.remember(made, 8, 8, operation);
  return operation;
}

}  // namespace

TEST_CASE("repeats: a call that differs only in its buffers is found", "[comm][unit]") {
  Repeats repeats;
  const auto made = call(Kind::all_reduce, 8);
  CHECK(repeats.find(made).operation == nullptr);
  const auto operation = remember(repeats, made);
  const auto found = repeats.find(call(Kind::all_reduce, 8, &buffer_b[8], &buffer_a[8]));
  REQUIRE(found.operation != nullptr);
  CHECK(*found.operation == operation);
  CHECK_FALSE(found.in_place);
}

TEST_CASE("repeats: any other difference is found out, whatever the hashes", "[comm][unit]") {
  Repeats repeats;
  const auto made = call(Kind::all_reduce, 8);
  remember(repeats, made);
  auto other = made;
  SECTION("count") {
    // Among so many there are some with the same hash.
    for (std::size_t count = 9; count < 1000; count++) {
      other.count = count;
      CHECK(repeats.find(other).operation == nullptr);
    }
  }
  SECTION("kind") { other.kind = Kind::all_gather; }
  SECTION("type") { other.type = DataType::int8; }
  SECTION("reduction") { other.op = ReduceOp::max; }
  SECTION("root") { other.root = 1; }
  CHECK(repeats.find(other).operation == nullptr);
}

TEST_CASE("repeats: the last one with a hash is remembered", "[comm][unit]") {
  Repeats repeats;
  remember(repeats, call(Kind::all_reduce, 8));
  const auto again = remember(repeats, call(Kind::all_reduce, 8));
  CHECK(*repeats.find(call(Kind::all_reduce, 8)).operation == again);
}

TEST_CASE("repeats: buffers must be there, and apart or the same", "[comm][unit]") {
  Repeats repeats;
  remember(repeats, call(Kind::all_reduce, 8));
  remember(repeats, call(Kind::all_gather, 8));
  const auto is_found = [&](Kind kind, const void* input, void* output) {
    return repeats.find(call(kind, 8, input, output)).operation != nullptr;
  };
  auto* const a = buffer_a.data();
  CHECK_FALSE(is_found(Kind::all_reduce, nullptr, a));
  CHECK_FALSE(is_found(Kind::all_reduce, a, nullptr));
  CHECK_FALSE(is_found(Kind::all_reduce, a, a + 7));
  CHECK_FALSE(is_found(Kind::all_reduce, a + 7, a));
  CHECK(is_found(Kind::all_reduce, a, a + 8));
  CHECK(is_found(Kind::all_reduce, a, a));
  CHECK(repeats.find(call(Kind::all_reduce, 8, a, a)).in_place);
  // A rank's own block of its output lies elsewhere than its input.
  CHECK_FALSE(is_found(Kind::all_gather, a, a));
}

TEST_CASE("repeats: a call without buffers is not in place", "[comm][unit]") {
  Repeats repeats;
  const auto barrier = call(Kind::barrier, 1, nullptr, nullptr);
  repeats.remember(barrier, 0, 0, std::make_shared<CollectiveOperation>());
  const auto found = repeats.find(barrier);
  CHECK(found.operation != nullptr);
  CHECK_FALSE(found.in_place);
}

}  // namespace ccoll
