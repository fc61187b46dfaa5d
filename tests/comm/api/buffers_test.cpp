// SPDX-License-Identifier: Apache-2.0
// Containers that convert to blocks: any type with contiguous elements.
#include <array>
#include <catch2/catch.hpp>
#include <list>
#include <string>
#include <vector>

#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::run_ranks;

namespace {

using Vector = std::vector<float>;
using Fixed = std::span<float, 4>;

static_assert(InputBuffer<const Vector&> && InputBuffer<std::span<const float>>);
static_assert(OutputBuffer<Vector&> && OutputBuffer<Fixed> && OutputBuffer<float (&)[4]> &&
              OutputBuffer<std::array<float, 4>&>);
static_assert(!OutputBuffer<const Vector&> && !OutputBuffer<std::span<const float>>);
static_assert(!InputBuffer<Vector>, "a temporary ends before an asynchronous call does");
static_assert(!InputBuffer<std::list<float>&> && !InputBuffer<std::vector<bool>&>,
              "their elements do not lie one after another");
static_assert(!InputBuffer<std::string&>, "char is no type of a number");
static_assert(OutputBufferList<std::vector<Vector>&> && !InputBufferList<Vector&>);

template <typename In, typename Out>
concept Gatherable = requires(Communicator c, In in, Out out) {
  c.all_gather(in, out);
};
static_assert(Gatherable<const Vector&, Fixed>);
static_assert(!Gatherable<const Vector&, const Vector&>, "the output is written");

}  // namespace

TEST_CASE("buffers: whatever holds them, the same arrives", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& world) {
    const auto me = static_cast<float>(world.rank());
    const int peer = 1 - world.rank();
    const Vector mine = {me, me};
    const std::array<float, 4> both = {0, 0, 1, 1};

    Vector vector(4);
    world.all_gather(mine, vector);
    expect(std::ranges::equal(vector, both), "a vector");
    float array[4] = {};
    world.all_gather(std::span<const float, 2>(mine), array);
    expect(std::ranges::equal(array, both), "a C array");
    std::array<float, 4> fixed = {};
    world.all_gather_async(mine, fixed).wait();
    expect(fixed == both, "an array");
    world.broadcast(Fixed(array), 1);
    expect(std::ranges::equal(array, both), "a span of four");

    Vector got(2);
    world.send_recv(mine, peer, got, peer);
    expect(got[0] == static_cast<float>(peer), "a message");
    world.batch(std::vector{MessageRequest::recv(array, peer), MessageRequest::send(fixed, peer)});
    expect(std::ranges::equal(array, both), "a batch");

    world.all_gather_v(mine, blocks(fixed, {2, 2}));
    expect(fixed == both, "blocks by sizes");
    std::vector<Vector> apart = {Vector(2), Vector(2)};
    world.all_gather_v(mine, blocks(apart));
    expect(apart[1][0] == 1, "blocks from a list");
    world.all_to_all_v(const_blocks(std::as_const(vector), std::vector<int>{2, 2}), blocks(apart));
    expect(apart[1][0] == me, "blocks by sizes of another type");
    world.all_reduce(in_place(apart));
    expect(apart[0][0] == 1 && apart[1][1] == 1, "all buffers of a list");
  });
  for (const auto& error : errors) CHECK(error == "");
}
