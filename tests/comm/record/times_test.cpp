// SPDX-License-Identifier: Apache-2.0
#include "comm/record/times.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace ccoll::test {

TEST_CASE("times: ticks keep their order, and lie between the record's beginning and now",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 100; trial++) {
    // A record that began up to 1000 s ago, by a counter of up to 5 GHz.
    auto begin = Clocks::now();
    const auto ago = static_cast<std::int64_t>(random() % 1'000'000'000'000);
    const auto ticks = std::min(static_cast<std::uint64_t>(ago) * (1 + random() % 5), begin.ticks);
    begin.ticks -= ticks;
    begin.steady -= ago;
    begin.wall -= ago;
    const Times times(begin);
    std::vector<std::uint64_t> seen(20);
    for (auto& each : seen) each = begin.ticks + random() % (ticks + 1);
    std::ranges::sort(seen);
    std::vector<std::int64_t> told;
    for (const auto each : seen) told.push_back(times.of(each));
    CHECK(std::ranges::is_sorted(told));
    const auto first = times.of(begin.ticks);
    CHECK(first <= told.front());
    CHECK(told.back() <= times.now());
    CHECK(times.now() - first >= ago);
    // A count of another processor, from before or after, is cut to what can be.
    CHECK(times.of(std::uint64_t{0}) == first);
    CHECK(times.of(UINT64_MAX) == times.now());
    const auto steady = std::chrono::steady_clock::now();
    const std::chrono::nanoseconds apart(random() % 1'000'000);
    CHECK(times.of(steady + apart) - times.of(steady) == apart.count());
  }
}

}  // namespace ccoll::test
