// SPDX-License-Identifier: Apache-2.0
#include "control/state/action_queue.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace ccoll::control {

TEST_CASE("action queue: actions come out in the order in which they went in, each once",
          "[unit]") {
  ActionQueue<std::string> queue;
  std::string done;
  const auto add = [&](char name) {
    queue.add([name](std::string& text) { text += name; }, [] {});
  };
  const auto run = [&] {
    while (const auto action = queue.take()) (*action)(done);
    return done;
  };
  CHECK(run().empty());
  for (const char name : {'a', 'b', 'c'}) add(name);
  CHECK(run() == "abc");
  // An action may add another.
  queue.add([&](std::string& /*text*/) { add('e'); }, [] {});
  add('d');
  CHECK(run() == "abcde");
}

TEST_CASE("action queue: where the other thread cannot be told, nothing is queued", "[unit]") {
  ActionQueue<std::string> queue;
  CHECK_THROWS_AS(queue.add([](std::string&) {}, [] { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK_FALSE(queue.take());
}

TEST_CASE("action queue: a thread that is told finds the action", "[unit]") {
  ActionQueue<int> queue;
  std::atomic<bool> found = false, is_about_to = false;
  std::thread told;
  queue.add([&](int& /*target*/) { found = true; },
            [&] {
              told = std::thread([&] {
                int target = 0;
                is_about_to = true;
                if (const auto action = queue.take()) (*action)(target);
              });
              // It gets ahead if nothing holds it back.
              while (!is_about_to) std::this_thread::yield();
              for (int i = 0; i < 1000; i++) std::this_thread::yield();
            });
  told.join();
  CHECK(found);
}

TEST_CASE("action queue: of what many threads add nothing is lost, and each one's order stays",
          "[unit]") {
  constexpr std::size_t kThreads = 4;
  constexpr int kEach = 500;
  using Seen = std::vector<std::vector<int>>;
  ActionQueue<Seen> queue;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; thread++)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; i++)
        queue.add([thread, i](Seen& all) { all[thread].push_back(i); }, [] {});
    });
  Seen seen(kThreads);
  const auto run = [&] {
    while (const auto action = queue.take()) (*action)(seen);
  };
  run();
  for (auto& thread : threads) thread.join();
  run();
  std::vector<int> expected;
  for (int i = 0; i < kEach; i++) expected.push_back(i);
  for (const auto& each : seen) CHECK(each == expected);
}

}  // namespace ccoll::control
