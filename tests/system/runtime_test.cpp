// SPDX-License-Identifier: Apache-2.0
#include "system/runtime.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <string_view>
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

/// Where a child says in which order its parts end.
int said_to = -1;
void say(std::string_view text) { CHECK(::write(said_to, text.data(), text.size()) > 0); }

/// Uses a library that cleans up at exit.
struct UsesLibrary {
  UsesLibrary() {
    std::atexit([] { say("library "); });
  }
  ~UsesLibrary() { say("part "); }
  int value = 0;
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

TEST_CASE("runtime: what uses a library until exit ends before the library", "[system][unit]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    said_to = ends[1];
    auto& one = Runtime::one_until_exit<UsesLibrary>();
    if (&one != &Runtime::one_until_exit<UsesLibrary>()) say("two ");
    {
      const Runtime::Afresh afresh;
      if (&one == &Runtime::one_until_exit<UsesLibrary>()) say("the same ");
    }
    std::exit(0);
  }
  ::close(ends[1]);
  std::string said(100, '\0');
  std::size_t bytes = 0;
  for (ssize_t got = 1; got > 0; bytes += static_cast<std::size_t>(got))
    got = ::read(ends[0], said.data() + bytes, said.size() - bytes);
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  // A part that a test has made afresh stays, and uses the library a second time.
  CHECK(said.substr(0, bytes) == "library part library ");
}

}  // namespace ccoll
