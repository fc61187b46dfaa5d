// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <thread>

#include "transport/waiter.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

std::chrono::nanoseconds time_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::steady_clock::now() - start;
}

}  // namespace

TEST_CASE("waiter: a sleep ends at its limit", "[transport][unit]") {
  auto waiter = Waiter::make().value();
  CHECK(time_of([&] { waiter->sleep(20ms); }) >= 19ms);
}

TEST_CASE("waiter: a ring ends the present sleep, and the next when nobody sleeps",
          "[transport][unit]") {
  auto waiter = Waiter::make().value();
  waiter->ring();
  CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    waiter->ring();
  });
  CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
  other.join();
}

TEST_CASE("waiter: who looks before it sleeps misses no news", "[transport][stress]") {
  auto mine = Waiter::make().value();
  auto theirs = Waiter::make().value();
  std::atomic<int> ball{0};
  constexpr int kRounds = 20'000;
  const auto play = [&](Waiter& own, Waiter& other, int parity) {
    for (int turn = parity; turn < kRounds; turn += 2) {
      while (ball.load() != turn) {
        own.prepare();
        if (ball.load() != turn) own.sleep(5s);
        own.awake();
      }
      ball.store(turn + 1);
      other.ring_if_asleep();
    }
  };
  const auto took = time_of([&] {
    std::thread other([&] { play(*theirs, *mine, 1); });
    play(*mine, *theirs, 0);
    other.join();
  });
  CHECK(ball.load() == kRounds);
  CHECK(took < 60s);  // one missed ring would cost 5 s
}
