// SPDX-License-Identifier: Apache-2.0
#include "sim/time_queue.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace ccoll::sim {
namespace {

struct Event {
  Picoseconds time = 0;
  int number = 0;
};

TEST_CASE("a time queue gives all events of the earliest time, as a multiset does", "[sim][unit]") {
  std::mt19937_64 random(7);
  TimeQueue<Event> queue;
  std::multiset<Picoseconds> expected;
  Picoseconds now = 0;
  std::vector<Event> taken;
  for (int round = 0; round < 5000; ++round) {
    for (auto more = random() % 4; more > 0; --more) {
      // Often the same time, sometimes far ahead.
      const auto ahead =
          static_cast<Picoseconds>(random() % 3 == 0 ? random() >> 24 : random() % 8);
      queue.push({now + ahead, round});
      expected.insert(now + ahead);
    }
    if (queue.empty()) continue;
    queue.take_earliest(taken);
    now = *expected.begin();
    REQUIRE(taken.size() == expected.count(now));
    for (const Event& event : taken) REQUIRE(event.time == now);
    expected.erase(now);
    REQUIRE(queue.empty() == expected.empty());
  }
}

TEST_CASE("a time queue that was shifted gives the same events, later", "[sim][unit]") {
  TimeQueue<Event> queue;
  std::vector<Event> taken;
  for (const Picoseconds time : {5, 9, 900, 5}) queue.push({time, 1});
  queue.take_earliest(taken);
  REQUIRE(taken.size() == 2);
  queue.shift(1000, [](Event& event) { event.number = 2; });
  queue.take_earliest(taken);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].time == 1009);
  CHECK(taken[0].number == 2);
  queue.take_earliest(taken);
  CHECK(taken[0].time == 1900);
  CHECK(queue.empty());
}

}  // namespace
}  // namespace ccoll::sim
