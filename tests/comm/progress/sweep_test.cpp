// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/sweep.hpp"

#include <catch2/catch.hpp>

namespace ccoll {
namespace {

using namespace std::chrono_literals;

/// How many operations are looked at per second if a caller asks every microsecond.
std::size_t looks(std::size_t count) {
  Sweep sweep;
  const Sweep::Clock::time_point begin{1h};
  std::size_t looked = 0;
  for (auto now = begin; now < begin + 1s; now += 1us)
    looked += sweep.begins(now, count) ? count : 0;
  return looked;
}

}  // namespace

TEST_CASE("sweep: a few operations are looked at each time", "[comm][unit]") {
  for (const std::size_t count : {1, 64}) CHECK(looks(count) == count * 1'000'000);
}

TEST_CASE("sweep: looks at many operations are as many as those at some", "[comm][unit]") {
  for (const std::size_t count : {65, 1000, 20'000, 50'000}) {
    CAPTURE(count);
    CHECK(looks(count) <= 600'000);
    CHECK(looks(count) >= 400'000);
  }
}

TEST_CASE("sweep: however many there are, it comes ten times a second", "[comm][unit]") {
  CHECK(looks(1'000'000) == 10 * 1'000'000);
}

TEST_CASE("sweep: it says when the next look may begin", "[comm][unit]") {
  Sweep sweep;
  const Sweep::Clock::time_point now{1h};
  REQUIRE(sweep.begins(now, 1000));
  REQUIRE_FALSE(sweep.begins(now + 1us, 1000));
  CHECK(sweep.next() > now + 1us);
  CHECK(sweep.begins(sweep.next(), 1000));
}

}  // namespace ccoll
