// SPDX-License-Identifier: Apache-2.0
#include "comm/guarded.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ccoll {

TEST_CASE("guarded: threads that add at once lose nothing", "[comm][unit]") {
  constexpr int kTimes = 10'000;
  Guarded<std::vector<int>> all;
  const auto add = [&] {
    for (int i = 0; i < kTimes; i++) all.with([&](std::vector<int>& each) { each.push_back(i); });
  };
  std::thread other(add);
  add();
  other.join();
  CHECK(all.with([](const std::vector<int>& each) { return each.size(); }) == 2 * kTimes);
}

TEST_CASE("guarded: no reference to the value leaves the lock", "[comm][unit]") {
  Guarded<std::vector<int>> guarded;
  const auto leak = [](auto& each) -> auto& { return each; };
  CHECK_FALSE(std::is_reference_v<decltype(guarded.with(leak))>);
  CHECK_FALSE(std::is_reference_v<decltype(std::as_const(guarded).with(leak))>);
}

TEST_CASE("guarded: an exception lets the lock go", "[comm][unit]") {
  Guarded<int> guarded;
  CHECK_THROWS_AS(guarded.with([](int& value) {
    value = 1;
    throw 0;
  }),
                  int);
  CHECK(guarded.with([](int value) { return value; }) == 1);
}

TEST_CASE("guarded: a child can use a value that was locked when it was forked", "[comm][unit]") {
  Guarded<int> guarded;
  pid_t child = 0;
  guarded.with([&](int& value) {
    value = 7;
    child = ::fork();
    if (child != 0) return;
    guarded.forget_lock();
    ::_exit(guarded.with([](int each) { return each; }));
  });
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

}  // namespace ccoll
