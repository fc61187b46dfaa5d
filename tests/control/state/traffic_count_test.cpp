// SPDX-License-Identifier: Apache-2.0
#include "control/state/traffic_count.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {

TEST_CASE("traffic count: each event counts once, under its own name", "[unit]") {
  TrafficCount count;
  count.opened();
  for (int i = 0; i < 2; i++) count.sent();
  for (int i = 0; i < 3; i++) count.received();
  for (int i = 0; i < 4; i++) count.refused();
  const Control::Statistics value = count.value();
  CHECK(value.opened == 1);
  CHECK(value.sent == 2);
  CHECK(value.received == 3);
  CHECK(value.refused == 4);
}

}  // namespace ccoll::control
