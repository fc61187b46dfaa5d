// SPDX-License-Identifier: Apache-2.0
#include "control/state/ascent.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {

TEST_CASE("ascent: a round goes on from the last rank, and another follows for those passed over",
          "[unit]") {
  Ascent ascent(4);
  CHECK_FALSE(ascent.begin());
  CHECK(ascent.begin());
  ascent.begin_round();
  CHECK(ascent.last() == 4);
  CHECK_FALSE(ascent.has_called());
  ascent.missed(5, true);
  ascent.missed(6, false);
  CHECK(ascent.last() == 6);
  CHECK(ascent.has_called());
  CHECK(ascent.has_passed_over());
  ascent.begin_round();
  CHECK_FALSE(ascent.has_passed_over());
  CHECK_FALSE(ascent.has_called());
  ascent.end();
  CHECK_FALSE(ascent.is_on());
}

TEST_CASE("ascent: pauses grow up to the longest", "[unit]") {
  Ascent ascent(0);
  CHECK(ascent.next_pause() == Ascent::kFirstPause);
  CHECK(ascent.next_pause() == 2 * Ascent::kFirstPause);
  for (int round = 0; round < 5; round++) ascent.next_pause();
  CHECK(ascent.next_pause() == Ascent::kLongestPause);
  ascent.shorten_pause();
  CHECK(ascent.next_pause() == Ascent::kFirstPause);
}

}  // namespace ccoll::control
