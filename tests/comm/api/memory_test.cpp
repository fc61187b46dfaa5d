// SPDX-License-Identifier: Apache-2.0
// Calls that run out of memory. It is a program of its own because it replaces operator new.
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "support/effort.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "transport/transport.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::run_ranks;

namespace {

/// On this thread, this many allocations succeed and the next fails. Negative: all succeed.
thread_local int allocations_left = -1;

/// On this thread, larger allocations fail.
thread_local std::size_t largest_allocation = SIZE_MAX;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (size > largest_allocation) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("memory: a call that has none left fails on all ranks, and leaves its buffers alone",
          "[comm]") {
  using Calls = std::function<void(Communicator&, std::span<float>)>;
  const std::vector<std::pair<const char*, Calls>> calls = {
      {"all_reduce", [](Communicator& world, auto data) { world.all_reduce(data); }},
      {"exchange", [](Communicator& world, auto data) {
         const auto half = data.size() / 2;
         world.send_recv(std::span<const float>(data.first(half)), 1 - world.rank(),
                         data.subspan(half), 1 - world.rank());
       }}};
  CommunicatorOptions options;
  options.timeout = 20s;
  options.transport = "inproc";
  for (const auto& [name, call] : calls) {
    for (int left = 0; left < (testing::reduced() ? 20 : 80); left++) {
      CAPTURE(name, left);
      bool failed = false;
      const auto start = std::chrono::steady_clock::now();
      const auto errors = run_ranks(2, options, [&](Communicator& world) {
        // The buffer is freed when the call is over: nothing may use it then.
        auto data = std::make_unique<std::vector<float>>(100'000, 1.0F);
        if (world.rank() == 0) allocations_left = left;
        try {
          call(world, std::span(*data));
        } catch (const std::exception&) {
          // Rank 0 throws its own error; rank 1 hears that its peer failed or left.
        }
        data.reset();
        if (world.rank() == 0) failed = allocations_left < 0;
        allocations_left = -1;
      });
      for (const auto& error : errors) CHECK(error == "");
      CHECK(std::chrono::steady_clock::now() - start < 5s);
      if (!failed) break;
    }
  }
}

TEST_CASE("memory: a communicator that cannot be made for want of it keeps nobody waiting",
          "[comm]") {
  using Make = std::function<std::optional<Communicator>(Communicator&)>;
  const std::vector<std::pair<const char*, Make>> ways = {
      {"duplicate", [](Communicator& world) { return world.duplicate(); }},
      {"split", [](Communicator& world) { return world.split(7, 0); }},
      {"subgroup", [](Communicator& world) {
         return world.subgroup({1, 0});
       }}};
  for (const auto& [name, make] : ways) {
    for (int left = 0; left < (testing::reduced() ? 20 : 80); left++) {
      CAPTURE(name, left);
      bool failed = false;
      const auto start = std::chrono::steady_clock::now();
      const auto errors = run_ranks(2, testing::options_for("inproc"), [&](Communicator& world) {
        if (world.rank() == 0) allocations_left = left;
        std::optional<Communicator> made;
        try {
          made = make(world);
        } catch (const Error&) {
        }
        if (world.rank() == 0) failed = allocations_left < 0;
        allocations_left = -1;
        if (made) testing::message_of([&] { made->barrier(); });
        if (world.rank() != 0) return;
        const auto again = testing::message_of([&] { world.subgroup({0}); });
        testing::expect(again.find("two threads") == std::string::npos, again);
      });
      for (const auto& error : errors) CHECK(error == "");
      CHECK(std::chrono::steady_clock::now() - start < 5s);
      if (!failed) break;
    }
  }
}

TEST_CASE("memory: a probe that has none left breaks nothing but the communicator", "[comm]") {
  using Look = std::function<void(Communicator&)>;
  const std::vector<std::pair<const char*, Look>> ways = {
      {"probe", [](Communicator& world) { world.probe(1, 7); }},
      {"try_probe",
       [](Communicator& world) {
         while (!world.try_probe(1, 7)) std::this_thread::yield();
       }},
      {"try_probe of anyone", [](Communicator& world) {
         while (!world.try_probe()) std::this_thread::yield();
       }}};
  for (const auto& [name, look] : ways) {
    for (int left = 0; left < (testing::reduced() ? 20 : 80); left++) {
      CAPTURE(name, left);
      bool failed = false;
      std::string told;
      std::barrier together(2);
      const auto start = std::chrono::steady_clock::now();
      const auto errors = run_ranks(2, testing::options_for("inproc"), [&](Communicator& world) {
        const std::vector<int> data(25, 3);
        if (world.rank() == 1) testing::message_of([&] { world.send(std::span(data), 0, 7); });
        together.arrive_and_wait();
        if (world.rank() == 0) {
          allocations_left = left;
          try {
            told = testing::message_of([&] { look(world); });
          } catch (const std::bad_alloc&) {
            // The allocation was for the call's own object, so the call never began.
            told = "raw";
          }
          failed = allocations_left < 0;
          allocations_left = -1;
        }
        // Neither kind of call may use an operation that failed half-made.
        const auto mine = testing::message_of([&] { world.send(std::span(data), 0, 9); });
        std::vector<int> got(25);
        if (world.rank() == 0 && mine == "no error") {
          const auto received = testing::message_of([&] { world.recv(std::span(got), 1, 7); });
          testing::expect(received != "no error" || got == data, "what was sent is received");
        }
        together.arrive_and_wait();
      });
      for (const auto& error : errors) CHECK(error == "");
      CHECK(std::chrono::steady_clock::now() - start < 5s);
      CHECK((told == "no error" || (told == "raw" && std::string_view(name) == "probe") ||
             told == "exhausted: rank 0 failed: out of memory"));
      if (!failed) break;
    }
  }
}

TEST_CASE("memory: a shrink that has none left ends for all, and the next one is well", "[comm]") {
  // The time limit exceeds the test's, so that no rank goes on because of it.
  const auto options = testing::options_for("inproc", 60s);
  for (int turn = 0; turn < (testing::reduced() ? 40 : 400); turn++) {
    const int left = turn / 2;
    // In this case the rank's word completes the roll call.
    const bool comes_last = turn % 2 == 1;
    CAPTURE(left, comes_last);
    bool failed = false;
    std::array<std::string, 3> told;
    std::barrier together(3);
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_ranks(3, options, [&](Communicator& world) {
      const bool poor = world.rank() == 1;
      auto& mine = told[static_cast<std::size_t>(world.rank())];
      std::optional<Communicator> current;
      const auto shrink = [&] { current = (current ? *current : world).shrink(); };
      if (poor && comes_last) testing::be_late(5ms);
      if (poor) allocations_left = left;
      mine = testing::message_of(shrink);
      if (poor) failed = allocations_left < 0;
      allocations_left = -1;
      // Ranks that got a communicator find that others did not.
      if (current) {
        const auto unusable = testing::message_of([&] { current->barrier(); });
        if (mine == "no error") mine = unusable;
      }
      // The others must not learn of it because a rank leaves or tries again.
      together.arrive_and_wait();
      if (mine == "no error") return;
      std::string again = "not tried";
      for (int tries = 0; again != "no error" && tries < 4; tries++) {
        again = testing::message_of(shrink);
        if (again == "no error") again = testing::message_of([&] { current->barrier(); });
      }
      testing::expect(again == "no error" && current->size() == 3, again);
    });
    for (const auto& error : errors) CHECK(error == "");
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    if (!failed) break;
    // If the memory was not essential, everything succeeds.
    if (told == std::array<std::string, 3>{"no error", "no error", "no error"}) continue;
    for (const auto& message : told) {
      CHECK_THAT(message, Catch::Matchers::StartsWith("exhausted: "));
      CHECK_THAT(message, Catch::Matchers::Contains("rank 1 "));
      CHECK_THAT(message, Catch::Matchers::Contains("out of memory"));
    }
  }
}

TEST_CASE("memory: a repeated call that has none left to wait with fails on all ranks", "[comm]") {
  for (const char* transport : {"inproc", "shm"}) {
    CAPTURE(transport);
    CommunicatorOptions options;
    options.timeout = 20s;
    options.transport = transport;
    bool failed = false;
    const auto start = std::chrono::steady_clock::now();
    std::array<std::string, 2> after;
    std::barrier together(2);
    const auto errors = run_ranks(2, options, [&](Communicator& world) {
      auto data = std::make_unique<std::vector<float>>(8, 1.0F);
      for (int i = 0; i < 3; i++) world.all_reduce(*data);
      together.arrive_and_wait();
      // Rank 0 waits for rank 1, so its call becomes an operation, which takes memory. Rank 1 calls
      // once that has failed.
      if (world.rank() == 1) together.arrive_and_wait();
      if (world.rank() == 0) allocations_left = 0;
      try {
        world.all_reduce(*data);
      } catch (const std::exception&) {
        failed = failed || world.rank() == 0;
      }
      allocations_left = -1;
      if (world.rank() == 0) together.arrive_and_wait();
      data.reset();
      std::vector<float> more(8, 1.0F);
      after[static_cast<std::size_t>(world.rank())] =
          testing::message_of([&] { world.all_reduce(more); });
    });
    for (const auto& error : errors) CHECK(error == "");
    CHECK(failed);
    CHECK(std::chrono::steady_clock::now() - start < 10s);  // not by its limit
    // No rank completes a call that the other has not made.
    for (const auto& message : after) CHECK_THAT(message, Catch::Matchers::Contains("rank 0"));
  }
}

TEST_CASE("memory: byte strings for which one rank has none fail on all ranks", "[comm]") {
  // The data exceeds what links hold, so no rank can finish before the others take part.
  const std::string text(16 << 20, 'x');
  using Call = std::function<void(Communicator&, std::string_view)>;
  const std::vector<std::pair<std::string, Call>> calls = {
      {"broadcast_bytes", [](Communicator& world, auto bytes) { world.broadcast_bytes(bytes, 1); }},
      {"all_gather_bytes", [](Communicator& world, auto bytes) { world.all_gather_bytes(bytes); }},
      {"gather_bytes", [](Communicator& world, auto bytes) { world.gather_bytes(bytes, 0); }}};
  CommunicatorOptions options;
  options.timeout = 20s;
  for (const char* transport : {"inproc", "tcp"}) {
    options.transport = transport;
    for (const auto& [name, call] : calls) {
      CAPTURE(transport, name);
      std::array<std::string, 2> told;
      std::barrier together(2);
      const auto errors = run_ranks(2, options, [&](Communicator& world) {
        const bool poor = world.rank() == 0;
        auto& mine = told[static_cast<std::size_t>(world.rank())];
        if (poor) largest_allocation = text.size() / 2;
        try {
          mine = testing::message_of([&] { call(world, poor ? "" : std::string_view(text)); });
        } catch (const std::exception& raw) {
          mine = std::string("raw: ") + raw.what();
        }
        largest_allocation = SIZE_MAX;
        // The others must not learn of it because a rank leaves.
        together.arrive_and_wait();
      });
      for (const auto& error : errors) CHECK(error == "");
      for (const auto& message : told) {
        CHECK_THAT(message, Catch::Matchers::StartsWith("exhausted: "));
        CHECK_THAT(message,
                   Catch::Matchers::EndsWith("rank 0 failed: " + name + ": out of memory"));
      }
    }
  }
}

TEST_CASE("memory: byte strings whose call has none left at any place fail on all ranks",
          "[comm]") {
  CommunicatorOptions options;
  options.timeout = 20s;
  options.transport = "inproc";
  for (int left = 0; left < (testing::reduced() ? 20 : 200); left++) {
    CAPTURE(left);
    bool failed = false;
    std::array<std::string, 2> told;
    std::barrier together(2);
    const auto errors = run_ranks(2, options, [&](Communicator& world) {
      const bool poor = world.rank() == 0;
      auto& mine = told[static_cast<std::size_t>(world.rank())];
      if (poor) allocations_left = left;
      try {
        mine =
            testing::message_of([&] { world.all_gather_bytes("more than a string itself holds"); });
      } catch (const std::exception& raw) {
        mine = std::string("raw: ") + raw.what();
      }
      if (poor) failed = allocations_left < 0;
      allocations_left = -1;
      // If the data had already arrived, the other rank's call succeeds and its next one fails.
      const auto next = testing::message_of([&] { world.barrier(); });
      if (mine == "no error") mine = next;
      together.arrive_and_wait();
    });
    for (const auto& error : errors) CHECK(error == "");
    // If the memory was optional, as in std::stable_sort, everything succeeds.
    const bool well = told[0] == "no error" && told[1] == "no error";
    if (!failed) CHECK(well);
    if (!failed) break;
    if (well) continue;
    for (const auto& message : told) {
      CHECK_THAT(message, Catch::Matchers::StartsWith("exhausted: "));
      CHECK_THAT(message, Catch::Matchers::Contains("rank 0 failed: "));
      CHECK_THAT(message, Catch::Matchers::Contains("out of memory"));
    }
  }
}

TEST_CASE("memory: create_all that gets no thread for a rank says so, and no rank waits for it",
          "[comm]") {
  bool told = false;
  for (int left = 0; left < 100; left++) {
    CAPTURE(left);
    const auto start = std::chrono::steady_clock::now();
    std::string error;
    std::vector<Communicator> made;
    allocations_left = left;
    try {
      made = Communicator::create_all(4, CommunicatorOptions());
    } catch (const Error& thrown) {
      CHECK(thrown.kind() == ErrorKind::exhausted);
      error = thrown.what();
    } catch (const std::bad_alloc&) {
      // The failure was in allocating a list, not in a thread.
    }
    const bool failed = allocations_left < 0;
    allocations_left = -1;
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    told = told || error.find("each of 4 ranks needs a thread") != error.npos;
    if (!failed) break;
  }
  CHECK(told);
}
