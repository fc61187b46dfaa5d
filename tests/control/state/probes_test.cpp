// SPDX-License-Identifier: Apache-2.0
#include "control/state/probes.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {
namespace {

using std::chrono::milliseconds;
constexpr Probes::Time kStart{std::chrono::hours(1)};

TEST_CASE("probes: few are in flight at once, and those asked again hold up no others", "[unit]") {
  Probes probes;
  for (std::uint32_t rank = 1; rank <= 40; rank++) probes.want(rank, kStart);
  for (std::uint32_t rank = 1; rank <= Probes::kMostAtOnce; rank++) {
    const auto question = probes.next();
    REQUIRE(question);
    CHECK(question->rank == rank);
    CHECK(question->since == kStart);
  }
  CHECK_FALSE(probes.next());
  probes.want(2, kStart);  // it is in flight
  probes.over(1);
  probes.want(1, kStart + milliseconds(1));
  CHECK(probes.next()->rank == 33);
  for (std::uint32_t rank = 2; rank <= 33; rank++) probes.over(rank);
  for (std::uint32_t rank = 34; rank <= 40; rank++) CHECK(probes.next()->rank == rank);
  CHECK(probes.next()->rank == 1);
  CHECK_FALSE(probes.next());
}

TEST_CASE("probes: silence counts from the second question on, for half the limit, without a gap",
          "[unit]") {
  Probes probes;
  const milliseconds limit(1000);
  const auto silent = [&](int since, int now) {
    return probes.is_silent({3, kStart + milliseconds(since)}, kStart + milliseconds(now), limit);
  };
  CHECK(silent(0, 100) == 0);
  CHECK(silent(200, 599) == 0);
  CHECK(silent(300, 600) == 3);
  probes.has_answered(3);
  CHECK(silent(700, 1300) == 0);
  CHECK(silent(1400, 1900) == 2);
  CHECK(silent(8000, 9000) == 0);  // it was not asked meanwhile
}

}  // namespace
}  // namespace ccoll::control
