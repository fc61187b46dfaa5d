// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/turns.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace ccoll {
namespace {

using namespace std::chrono_literals;
using Clock = Turns::Clock;

/// Any moment will do.
constexpr Clock::time_point kNow{100s};
constexpr auto kNever = Clock::time_point::max();

void wait_until_wanted(const Turns& turns) {
  while (!turns.is_wanted()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("turns: one thread at a time owns", "[comm][unit]") {
  Turns turns;
  const auto owned = turns.try_own();
  REQUIRE(owned.has_value());
  CHECK_FALSE(turns.try_own().has_value());
  CHECK_FALSE(turns.is_wanted());
  std::atomic<bool> has_it{false};
  std::atomic<int> rings{0};
  std::thread other([&] {
    const auto its = turns.wait_to_own([&] { rings++; });
    has_it = true;
    turns.disown(its);
  });
  wait_until_wanted(turns);
  CHECK_FALSE(has_it);
  turns.disown(*owned);
  other.join();
  CHECK(has_it);
  CHECK(rings == 1);
  CHECK(turns.try_own().has_value());
}

TEST_CASE("turns: nobody passes the flag while nobody waits for it", "[comm][unit]") {
  Turns turns;
  const auto owned = turns.try_own();
  REQUIRE(owned.has_value());
  CHECK_FALSE(turns.must_pass(std::nullopt));
  turns.move();
  CHECK_FALSE(turns.must_pass(0));
}

TEST_CASE("turns: a new thread gets the flag, and one that rests gets it after a movement",
          "[comm][unit]") {
  Turns turns;
  const auto owned = turns.try_own();
  REQUIRE(owned.has_value());
  std::atomic<bool> ends{false};
  std::atomic<int> looks{0};
  std::thread other([&] {
    const auto its = turns.wait_to_own([] {});
    while (!ends) {
      looks++;
      turns.rest(its, kNever);
    }
    turns.disown(its);
  });
  wait_until_wanted(turns);
  // The other has not looked yet.
  CHECK(turns.must_pass(std::nullopt));
  auto rested = turns.rest(*owned, kNever);
  CHECK(looks == 1);
  // Now both have looked, and nothing has moved.
  CHECK_FALSE(turns.must_pass(rested));
  turns.move();
  CHECK(turns.must_pass(rested));
  rested = turns.rest(*owned, kNever);
  CHECK(looks == 2);
  CHECK_FALSE(turns.must_pass(rested));
  turns.end_one();
  CHECK(turns.must_pass(rested));
  ends = true;
  turns.rest(*owned, kNever);
  other.join();
  CHECK_FALSE(turns.is_wanted());
}

TEST_CASE("turns: threads that rest are let look when the first of their limits has passed",
          "[comm][unit]") {
  Turns turns;
  const auto owned = turns.try_own();
  REQUIRE(owned.has_value());
  CHECK(turns.rest_until() == kNever);
  CHECK(turns.rest(*owned, kNow + 2s) == 0);
  CHECK(turns.rest(*owned, kNow + 1s) == 0);
  CHECK(turns.rest(*owned, kNow + 3s) == 0);
  CHECK(turns.rest_until() == kNow + 1s);
  turns.end_rests(kNow);
  CHECK(turns.rest_until() == kNow + 1s);
  turns.end_rests(kNow + 1s);
  CHECK(turns.rest_until() == kNever);
  // That counts as a movement.
  CHECK(turns.rest(*owned, kNever) == 1);
}

TEST_CASE("turns: a look notes whether anything moved since the one before", "[comm][unit]") {
  Turns turns;
  turns.look(kNow);
  CHECK(turns.last_moved() == kNow);
  turns.look(kNow + 1s);
  CHECK(turns.last_moved() == kNow);
  turns.begin();
  turns.look(kNow + 2s);
  CHECK(turns.last_moved() == kNow + 2s);
  turns.move();
  turns.look(kNow + 3s);
  CHECK(turns.last_moved() == kNow + 3s);
  turns.end_one();
  turns.look(kNow + 4s);
  CHECK(turns.last_moved() == kNow + 3s);
}

}  // namespace ccoll
