// SPDX-License-Identifier: Apache-2.0
// Calls in which memory runs out. A program of its own: it replaces operator new.
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
#include "transport/transport.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::run_ranks;

namespace {

/// Of this thread: so many allocations succeed, then one fails. Negative: all succeed.
thread_local int allocations_left = -1;

}  // namespace

void* operator new(std::size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
        // Freed when the call is over: nobody may use it then.
        auto data = std::make_unique<std::vector<float>>(100'000, 1.0F);
        if (world.rank() == 0) allocations_left = left;
        try {
          call(world, std::span(*data));
        } catch (const std::exception&) {
          // Of rank 0 what was thrown, of rank 1 that its peer failed or has left.
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
      // Rank 0 waits for rank 1, so that its call becomes an operation; that takes memory. Rank 1
      // makes its own when that has failed.
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
    // Nobody goes on with a call that the other has not made.
    for (const auto& message : after) CHECK_THAT(message, Catch::Matchers::Contains("rank 0"));
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
      // Of a list, not of a thread.
    }
    const bool failed = allocations_left < 0;
    allocations_left = -1;
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    told = told || error.find("a thread for each of 4 ranks") != error.npos;
    if (!failed) break;
  }
  CHECK(told);
}
