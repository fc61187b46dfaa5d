// SPDX-License-Identifier: Apache-2.0
#include "system/runtime.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace ccoll {
namespace {

struct Counter {
  Counter() { made++; }
  int value = 0;
  static inline std::atomic<int> made{0};
};

/// A part that needs another one, which only this file uses.
struct Inner {
  int value = 7;
};
struct Outer {
  int seen = Runtime::one<Inner>().value;
};

/// First used by a test that has made the runtime afresh.
struct Late {
  Late() { made++; }
  static inline std::atomic<int> made{0};
};

}  // namespace

TEST_CASE("runtime: a process has one of each kind, made once", "[system][unit]") {
  auto& one = Runtime::one<Counter>();
  CHECK(&Runtime::one<Counter>() == &one);
  std::vector<std::thread> threads;
  std::atomic<int> same{0};
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&] { same += &Runtime::one<Counter>() == &one ? 1 : 0; });
  for (auto& each : threads) each.join();
  CHECK(same == 8);
  CHECK(Counter::made == 1);
}

TEST_CASE("runtime: it is there before main, and a part may need another", "[system][unit]") {
  CHECK(Late::made == 1);
  CHECK(Runtime::one<Outer>().seen == 7);
}

TEST_CASE("runtime: tests have one made afresh, and then the former one again", "[system][unit]") {
  auto& before = Runtime::one<Counter>();
  before.value = 5;
  const int made = Counter::made;
  {
    const Runtime::Afresh afresh;
    CHECK(&Runtime::one<Counter>() != &before);
    CHECK(Runtime::one<Counter>().value == 0);
    CHECK(Counter::made == made + 1);
    Runtime::one<Counter>().value = 9;
    {
      const Runtime::Afresh again;
      CHECK(Runtime::one<Counter>().value == 0);
    }
    CHECK(Runtime::one<Counter>().value == 9);
  }
  CHECK(&Runtime::one<Counter>() == &before);
  CHECK(before.value == 5);
  CHECK(&Runtime::one<Late>() == &Runtime::one<Late>());
}

}  // namespace ccoll
