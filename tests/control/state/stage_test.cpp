// SPDX-License-Identifier: Apache-2.0
#include "control/state/stage.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {

TEST_CASE("stage: a start-up is decided once it has begun, for better or worse", "[unit]") {
  Stage stage;
  CHECK_FALSE(stage.is_starting());
  CHECK_FALSE(stage.is_decided());
  const Stage::Time deadline{std::chrono::seconds(7)};
  stage.begin(deadline);
  CHECK(stage.is_starting());
  CHECK_FALSE(stage.is_decided());
  const bool success = GENERATE(true, false);
  stage.decide(success);
  CHECK_FALSE(stage.is_starting());
  CHECK(stage.is_decided());
  CHECK(stage.has_joined() == success);
}

TEST_CASE("stage: a start-up tries until its deadline, and who comes after it comes too late",
          "[unit]") {
  using namespace std::chrono_literals;
  const Stage::Time deadline{1h};
  Stage stage;
  stage.begin(deadline);
  CHECK(stage.may_try(deadline - 1ns));
  CHECK_FALSE(stage.may_try(deadline));
  CHECK(stage.left(deadline - 7s) == 7s);
  CHECK(stage.left(deadline) == 1ms);
  CHECK(stage.left(deadline + 1h) == 1ms);
  CHECK_FALSE(stage.is_long_over(deadline + 1h));
  stage.decide(GENERATE(true, false));
  CHECK_FALSE(stage.may_try(deadline - 1h));
  CHECK_FALSE(stage.is_long_over(deadline));
  CHECK(stage.is_long_over(deadline + 1ns));
}

TEST_CASE("stage: a rank that leaves is as far as it was", "[unit]") {
  Stage stage;
  stage.leave();
  CHECK(stage.is_leaving());
  CHECK_FALSE(stage.is_decided());
  stage.begin({});
  CHECK(stage.is_starting());
  stage.decide(true);
  CHECK((stage.has_joined() && stage.is_leaving()));
}

}  // namespace ccoll::control
