// SPDX-License-Identifier: Apache-2.0
// Blocking calls that return unfinished work after a while (CallOptions::unfinished).
#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <latch>
#include <string>
#include <vector>

#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;

namespace {

/// There are several, so that repeated calls are covered, too.
constexpr int kUnfinishedCalls = 4;

}  // namespace

TEST_CASE("unfinished: a call that others have not made returns, and its Work ends it", "[comm]") {
  std::array<std::latch, kUnfinishedCalls> handed_back{std::latch(1), std::latch(1), std::latch(1),
                                                       std::latch(1)};
  const auto errors = testing::run_ranks(2, {}, [&](Communicator& world) {
    // The calls below repeat this one, whose operation nobody holds.
    std::vector<int> first(3, 1);
    world.all_reduce(first);
    for (int call = 0; call < kUnfinishedCalls; call++) {
      std::vector<int> data(3, world.rank() + call);
      if (world.rank() == 1) {
        handed_back[static_cast<std::size_t>(call)].wait();
        world.all_reduce(data);
      } else {
        Work work;
        world.all_reduce(data, ReduceOp::sum, {.unfinished = &work});
        std::promise<bool> told;
        work.on_done([&](const Error* error) { told.set_value(error == nullptr); });
        expect(!work.test(), "the call is over before the other rank has made it");
        handed_back[static_cast<std::size_t>(call)].count_down();
        work.wait();
        expect(told.get_future().get(), "on_done was told of an error");
      }
      expect(data == std::vector<int>(3, 1 + 2 * call), "a wrong sum");
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("unfinished: a repeated call that is over at once hands nothing back", "[comm]") {
  const auto errors = testing::run_ranks(1, {}, [](Communicator& world) {
    std::vector<int> data(3, 5), other(3);
    world.all_reduce(data);
    auto apart = world.duplicate();
    Work message = apart.recv_async(other, 0);
    Work work = message;
    world.all_reduce(data, ReduceOp::sum, {.unfinished = &work});
    expect(work.test(), "the Work is that of a message");
    apart.send(data, 0);
    message.wait();
    expect(other == std::vector<int>(3, 5), "the message is another one");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("unfinished: byte strings are whole when the call returns", "[comm]") {
  const std::string text(8U << 20U, 'x');
  const auto errors = testing::run_ranks(2, {}, [&](Communicator& world) {
    const std::string mine = world.rank() == 0 ? text : std::string();
    Work work;
    expect(world.broadcast_bytes(mine, 0, {.unfinished = &work}) == text, "broadcast");
    expect(world.all_gather_bytes(mine, {.unfinished = &work})[0] == text, "all_gather");
    const auto gathered = world.gather_bytes(mine, 1, {.unfinished = &work});
    expect(world.rank() == 0 || gathered[0] == text, "gather");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("unfinished: what fails after the call has returned, the Work tells", "[comm]") {
  std::latch handed_back(1);
  const auto errors = testing::run_ranks(2, {}, [&](Communicator& world) {
    if (world.rank() == 1) {
      world.barrier();
      handed_back.wait();
      return world.abort("enough");
    }
    world.barrier();
    Work work;
    world.barrier({.unfinished = &work});
    handed_back.count_down();
    const auto got = testing::message_of([&] { work.wait(); });
    expect(got.find("aborted: rank 1 aborted: enough") == 0, got);
  });
  for (const auto& error : errors) CHECK(error == "");
}
