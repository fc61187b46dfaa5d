// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/farewells.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "support/asleep.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Nobody in these tests waits this long unless something is wrong.
constexpr auto kForEver = 60'000ms;

/// How long that wait took.
Clock::duration time_of(Farewells& farewells, const std::vector<std::uint32_t>& ranks,
                        std::chrono::milliseconds limit) {
  const auto begin = Clock::now();
  farewells.await(ranks, limit);
  return Clock::now() - begin;
}

}  // namespace

TEST_CASE("farewells: nobody waits for no ranks, nor for those that were added", "[comm][unit]") {
  Farewells farewells;
  CHECK(time_of(farewells, {}, kForEver) < 30s);
  farewells.add(7);
  farewells.add(2);
  farewells.add(7);
  CHECK(time_of(farewells, {2, 7}, kForEver) < 30s);
  CHECK(time_of(farewells, {7, 7}, kForEver) < 30s);
}

TEST_CASE("farewells: ranks that are missing are waited for up to the limit", "[comm][unit]") {
  Farewells farewells;
  CHECK(time_of(farewells, {1}, 20ms) >= 20ms);
  farewells.add(1);
  farewells.add(3);
  CHECK(time_of(farewells, {1, 2}, 20ms) >= 20ms);
  CHECK(time_of(farewells, {1}, 0ms) < 30s);
}

TEST_CASE("farewells: the wait ends with the last of the ranks, not before", "[comm][unit]") {
  Farewells farewells;
  std::atomic<bool> is_over = false;
  testing::Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.is_this_thread();
    farewells.await({0, 1, 2}, kForEver);
    is_over = true;
  });
  for (const std::uint32_t rank : {2u, 5u, 0u}) {
    farewells.add(rank);
    CHECK(sleeper.sleeps());
    CHECK_FALSE(is_over);
  }
  const auto begin = Clock::now();
  farewells.add(1);
  waiter.join();
  CHECK(Clock::now() - begin < 30s);
}

TEST_CASE("farewells: all have closed once, with the last rank, and each counts once",
          "[comm][unit]") {
  Farewells farewells;
  CHECK_FALSE(farewells.all_closed(4, 3));
  CHECK_FALSE(farewells.all_closed(4, 3));
  CHECK_FALSE(farewells.all_closed(6, 3));
  CHECK(farewells.all_closed(5, 3));
  CHECK_FALSE(farewells.all_closed(5, 3));
  CHECK(time_of(farewells, {4, 5, 6}, kForEver) < 30s);
  CHECK(Farewells().all_closed(0, 1));
}

TEST_CASE("farewells: the end is waited for up to the limit", "[comm][unit]") {
  Farewells farewells;
  const auto begin = Clock::now();
  farewells.await_end(20ms);
  CHECK(Clock::now() - begin >= 20ms);
  std::thread waiter([&] { farewells.await_end(kForEver); });
  farewells.end();
  waiter.join();
  farewells.await_end(kForEver);
  CHECK(Clock::now() - begin < 30s);
}

TEST_CASE("farewells: a forked child waits neither for its parent's threads nor their lock",
          "[comm][unit]") {
  auto farewells = std::make_unique<Farewells>();
  testing::Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.is_this_thread();
    farewells->await_end(kForEver);
  });
  CHECK(sleeper.sleeps());
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    farewells->forget_lock();
    farewells->add(1);
    farewells.reset();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  farewells->end();
  waiter.join();
}

}  // namespace ccoll
