// SPDX-License-Identifier: Apache-2.0
#include "system/locks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ccoll {

TEST_CASE("guarded: threads that add at once lose nothing", "[system][unit]") {
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

TEST_CASE("guarded: no reference to the value leaves the lock", "[system][unit]") {
  Guarded<std::vector<int>> guarded;
  const auto leak = [](auto& each) -> auto& { return each; };
  CHECK_FALSE(std::is_reference_v<decltype(guarded.with(leak))>);
  CHECK_FALSE(std::is_reference_v<decltype(std::as_const(guarded).with(leak))>);
}

TEST_CASE("guarded: an exception lets the lock go", "[system][unit]") {
  Guarded<int> guarded;
  CHECK_THROWS_AS(guarded.with([](int& value) {
    value = 1;
    throw 0;
  }),
                  int);
  CHECK(guarded.with([](int value) { return value; }) == 1);
}

TEST_CASE("guarded: a thread waits until another has changed the value", "[system][unit]") {
  Guarded<int> guarded(1);
  std::condition_variable changed;
  std::thread other([&] {
    for (int i = 0; i < 6; ++i) {
      guarded.with([](int& value) { ++value; });
      changed.notify_one();
    }
  });
  auto locked = guarded.lock();
  locked.wait(changed, [](int value) { return value == 7; });
  CHECK(*locked == 7);
  const auto is_more = [](int value) { return value > 7; };
  CHECK_FALSE(locked.wait_until(changed, std::chrono::steady_clock::now(), is_more));
  locked.unlock();
  other.join();
}

TEST_CASE("guarded: the lock of a scope can be given up and taken again", "[system][unit]") {
  Guarded<int, ProcessMutex> guarded(1);
  auto locked = guarded.lock();
  locked.unlock();
  CHECK(guarded.with([](int& value) { return ++value; }) == 2);
  locked.lock();
  CHECK(*locked == 2);
}

TEST_CASE("guarded: try_lock() does not wait", "[system][unit]") {
  Guarded<int> guarded(1);
  const auto tries = [&] {
    bool is_locked = false;
    std::thread([&] {
      if (const auto locked = guarded.try_lock()) is_locked = ++*locked > 0;
    }).join();
    return is_locked;
  };
  auto locked = guarded.lock();
  CHECK(locked);
  CHECK_FALSE(tries());
  CHECK(*locked == 1);
  locked.unlock();
  CHECK_FALSE(locked);
  CHECK(tries());
  CHECK(guarded.with([](int value) { return value; }) == 2);
}

TEST_CASE("guarded: readers share the lock, and a writer has it alone", "[system][unit]") {
  Guarded<int, std::shared_mutex> guarded(7);
  const auto reader = guarded.lock_shared();
  int read = 0;
  bool is_written = false;
  std::thread([&] {
    read = *guarded.lock_shared();
    if (const auto writer = guarded.try_lock()) is_written = true;
  }).join();
  CHECK(read == 7);
  CHECK_FALSE(is_written);
  CHECK(*reader == 7);
}

TEST_CASE("guarded: a child can use a value that was locked when it was forked", "[system][unit]") {
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
