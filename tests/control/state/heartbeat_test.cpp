// SPDX-License-Identifier: Apache-2.0
#include "control/state/heartbeat.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {

using std::chrono::milliseconds;

TEST_CASE("heartbeat: a check per tenth of the shortest limit, and one is slack", "[unit]") {
  Heartbeat heartbeat(milliseconds(1000));
  CHECK(heartbeat.begin_watch(milliseconds(1000)) == milliseconds(100));
  CHECK_FALSE(heartbeat.begin_watch(milliseconds(1000)));
  CHECK(heartbeat.begin_watch(milliseconds(500)) == milliseconds(50));
  CHECK(heartbeat.end_watch() == milliseconds(50));
  CHECK(heartbeat.begin_watch(milliseconds(5)) == milliseconds(1));
  CHECK_FALSE(heartbeat.is_loss(milliseconds(899)));
  CHECK(heartbeat.is_loss(milliseconds(900)));
}

TEST_CASE("heartbeat: a rank without a limit loses nobody, but beats for others", "[unit]") {
  Heartbeat heartbeat(milliseconds(0));
  CHECK_FALSE(heartbeat.begin_watch(milliseconds(0)));
  CHECK_FALSE(heartbeat.is_loss(std::chrono::hours(1)));
  CHECK(heartbeat.begin_watch(milliseconds(100)) == milliseconds(10));
}

}  // namespace ccoll::control
