// SPDX-License-Identifier: Apache-2.0
// Communicators that end while other threads use them.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <latch>

#include "dumps/read.hpp"
#include "support/asleep.hpp"
#include "support/eventually.hpp"
#include "support/held.hpp"
#include "support/ranks.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::expect;
using testing::held_at_rest;
using testing::message_of;
using testing::options_for;
using testing::run_ranks;
using testing::run_threads;

TEST_CASE("lifetime: a thread that is blocked in a call gets `aborted` when another closes",
          "[comm]") {
  std::vector<float> data(1'000'000);
  const auto span = std::span(data);
  const std::vector<std::pair<const char*, std::function<void(Communicator&)>>> calls = {
      {"recv", [&](Communicator& world) { world.recv(span, 1); }},
      {"send", [&](Communicator& world) { world.send(std::span<const float>(data), 1); }},
      {"probe", [&](Communicator& world) { world.probe(1); }},
      {"all_reduce", [&](Communicator& world) { world.all_reduce(span); }},
      {"split", [&](Communicator& world) { world.split(0, 0); }},
      {"subgroup",
       [&](Communicator& world) {
         world.subgroup({0, 1});
       }},
      {"mesh",
       [&](Communicator& world) {
         Mesh(world, {{"x", 2}});
       }},
      {"group_end", [&](Communicator& world) {
         CallGroup group;
         world.barrier();
         group.end();
       }}};
  for (const auto& kind : testing::usable_transports()) {
    for (const auto& [name, call] : calls) {
      CAPTURE(kind.name, name);
      const auto start = std::chrono::steady_clock::now();
      std::latch over(2);
      const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
        if (communicator.rank() == 0) {
          std::atomic<pid_t> id = 0;
          std::string got;
          std::thread blocked([&] {
            id = gettid();
            id.notify_one();
            got = message_of([&] { call(communicator); });
          });
          id.wait(0);
          // Close only now: a thread that has yet to begin its call must not use a closing
          // communicator.
          const bool asleep = testing::falls_asleep(id);
          communicator.close();
          blocked.join();
          over.arrive_and_wait();
          expect(asleep, "the call does not block");
          expect(got.starts_with("aborted: ") &&
                     got.find("the communicator was destroyed") != std::string::npos,
                 got);
        } else {
          over.arrive_and_wait();
        }
      });
      for (const auto& error : errors) CHECK(error == "");
      CHECK(std::chrono::steady_clock::now() - start < 5s);
    }
  }
}

TEST_CASE("lifetime: a group lets a communicator go whose own calls are over", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    auto quick = Communicator::create_all(2, options_for(kind.name));
    auto slow = Communicator::create_all(2, options_for(kind.name));
    std::string late;
    bool is_over = false;  // rank 0's part
    std::thread other([&] {
      quick[1].barrier();
      is_over = testing::eventually(
          [&] { return value_or_throw(dump::parse(quick[0].dump())).under_way.empty(); });
      quick[0].close();
      late = message_of([&] { slow[1].barrier(); });
    });
    const auto start = std::chrono::steady_clock::now();
    CallGroup group;
    quick[0].barrier();
    slow[0].barrier();
    const auto got = message_of([&] { group.end(); });
    other.join();
    CHECK(got == "no error");
    CHECK(late == "no error");
    CHECK(is_over);
    CHECK(std::chrono::steady_clock::now() - start < 5s);
  }
}

TEST_CASE("lifetime: a communicator that was closed or moved from says so", "[comm]") {
  auto world = Communicator::create_all(1).front().duplicate();
  const auto other = std::move(world);
  const auto gone = "aborted: the communicator was closed, or moved from";
  CHECK(message_of([&] { world.barrier(); }) == gone);
  world = Communicator::create_all(1).front().duplicate();
  world.barrier();
  world.close();
  world.close();
  CHECK(message_of([&] { world.barrier(); }) == gone);
  CHECK(message_of([&] { world.rank(); }) == gone);
  CHECK(message_of([&] { world.try_probe(); }) == gone);
  CHECK(message_of([&] { world.split(0, 0); }) == gone);
}

TEST_CASE(
    "lifetime: what is sent to a rank that has left, on a communicator it never made, is let go",
    "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    // The service thread and its resources live as long as a communicator.
    auto alone = Communicator::create(make_inproc_store(), 0, 1);
    const auto before = held_at_rest();
    std::latch left(2);
    const auto said = run_ranks(2, options_for(kind.name), [&](Communicator& world) {
      if (world.rank() == 1) {
        world.close();
        world = Communicator::create(make_inproc_store(), 0, 1);
        left.arrive_and_wait();
        return;
      }
      left.arrive_and_wait();
      auto copy = world.duplicate();
      const std::int32_t value = 1;
      message_of([&] { copy.send_async(std::span(&value, 1), 1); });
    });
    for (const auto& text : said) CHECK(text.empty());
    const auto limit = std::chrono::steady_clock::now() + 30s;
    auto after = held_at_rest();
    while (!after.no_more_than(before) && std::chrono::steady_clock::now() < limit)
      after = held_at_rest();
    CHECK(after.no_more_than(before));
  }
}
