// SPDX-License-Identifier: Apache-2.0
// Memory, descriptors and threads do not grow with the number of calls and communicators. It is a
// program of its own, so that nothing else allocates meanwhile.
#include <malloc.h>

#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <filesystem>

#include "support/held.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "transport/transport.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::by_effort;
using testing::expect;

namespace {

constexpr std::array kTransports{"inproc", "shm", "tcp"};

struct Held {
  std::size_t descriptors = 0, mappings = 0, threads = 0;
  std::size_t bytes = 0;  ///< allocated, not resident: residency varies with the threads' arenas
};

/// Gives objects that have just ended time to be cleaned up.
Held held_now() {
  testing::leave_time(300ms);
  const auto now = testing::held_now();
  const std::filesystem::directory_iterator threads("/proc/self/task");
  const auto allocated = mallinfo2();
  return {now.descriptors, now.mappings,
          static_cast<std::size_t>(std::distance(begin(threads), end(threads))),
          allocated.uordblks + allocated.hblkhd};
}

/// On a busy machine the clean-up takes longer.
Held held_after(const Held& before) {
  const auto limit = std::chrono::steady_clock::now() + 20s;
  for (;;) {
    const Held now = held_now();
    const bool is_clean = now.descriptors <= before.descriptors &&
                          now.mappings <= before.mappings && now.threads <= before.threads;
    if (is_clean || std::chrono::steady_clock::now() > limit) return now;
  }
}

void check_growth(const char* transport, const Held& before, const Held& after) {
  CAPTURE(transport, before.bytes, after.bytes);
  CHECK(after.descriptors <= before.descriptors);
  CHECK(after.mappings <= before.mappings);
  CHECK(after.threads <= before.threads);
  CHECK(after.bytes < before.bytes + (256 << 10));
}

/// Makes a call of two ranks and checks its result.
void check_sum(Communicator& pair) {
  int sum = 1;
  pair.all_reduce(std::span(&sum, 1));
  expect(sum == 2, "the sum is wrong");
}

/// Checks that `times` turns of both ranks leak nothing beyond the first few turns' allocations.
void check_turns(const char* transport, int times, const std::function<void(Communicator&)>& turn) {
  Held before, after;
  std::barrier together(2);
  const auto errors = testing::run_ranks(2, testing::options_for(transport), [&](auto& world) {
    for (int i = 0; i < times / 10; i++) turn(world);
    together.arrive_and_wait();
    if (world.rank() == 0) before = held_now();
    together.arrive_and_wait();
    for (int i = 0; i < times; i++) turn(world);
    together.arrive_and_wait();
    if (world.rank() == 0) after = held_after(before);
    together.arrive_and_wait();
  });
  for (const auto& error : errors) CHECK(error == "");
  check_growth(transport, before, after);
}

}  // namespace

TEST_CASE("growth: small calls leave nothing behind", "[comm]") {
  for (const char* transport : kTransports)
    check_turns(transport, by_effort(2'000, 20'000, 10'000'000), check_sum);
}

TEST_CASE("growth: communicators that come and go leave nothing behind", "[comm]") {
  for (const char* transport : kTransports) {
    check_turns(transport, by_effort(20, 200, 100'000), [](Communicator& world) {
      Communicator copy = world.duplicate();
      check_sum(copy);
    });
  }
}

TEST_CASE("growth: communicators that shrink leave nothing behind", "[comm]") {
  for (const char* transport : kTransports) {
    check_turns(transport, by_effort(20, 200, 10'000), [](Communicator& world) {
      Communicator copy = world.duplicate();
      copy = copy.shrink();
      check_sum(copy);
    });
  }
}

TEST_CASE("growth: jobs that come and go leave nothing behind", "[comm]") {
  for (const char* transport : kTransports) {
    const auto turn = [&] {
      const auto errors = testing::run_ranks(3, testing::options_for(transport),
                                             [](Communicator& world) { world.barrier(); });
      for (const auto& error : errors) CHECK(error == "");
    };
    const int times = by_effort(5, 30, 3'000);
    for (int i = 0; i < times / 5; i++) turn();
    const Held before = held_now();
    for (int i = 0; i < times; i++) turn();
    check_growth(transport, before, held_after(before));
  }
}

TEST_CASE("growth: what was sent to a communicator that its receiver never made leaves with it",
          "[comm]") {
  for (const char* transport : kTransports) {
    const auto turn = [&] {
      std::barrier together(2);
      const auto errors = testing::run_ranks(2, testing::options_for(transport), [&](auto& world) {
        const std::vector<int> some(10, 7);
        if (world.rank() == 0) {
          auto copy = world.duplicate();
          copy.send(some, 1);
        }
        together.arrive_and_wait();
      });
      for (const auto& error : errors) CHECK(error == "");
    };
    for (int i = 0; i < 3; i++) turn();
    const Held before = held_now();
    for (int i = 0; i < 20; i++) turn();
    check_growth(transport, before, held_after(before));
  }
}
