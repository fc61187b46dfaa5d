// SPDX-License-Identifier: Apache-2.0
#include "engine/plan_standing.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/plan/fake_links.hpp"

using namespace ccoll;
using Which = PlanStanding::Which;

namespace {

/// Rank 0 of 4 with two lanes: in the first it receives from rank 1, then from rank 2, and sends to
/// rank 3; in the second it only waits for that.
struct Standing {
  Standing() {
    lanes.resize(2);
    for (auto* lane : {&lanes[0], &lanes[1]}) lane->steps.resize(2);
    lanes[1].number = 1;
    lanes[1].steps.pop_back();
    auto& first = lanes[0].steps[0];
    first.receives = {&one};
    first.from = {1};
    auto& second = lanes[0].steps[1];
    second.receives = {&two};
    second.from = {2};
    second.sends = {&three};
    second.to = {3};
    for (auto* step : {&first, &second}) step->store.push_back({Buffer::output, 0, 0});
    lanes[1].steps[0].after = After{0, 1};
  }
  static PlanRequest request() {
    PlanRequest request;
    request.problem.size = 4;
    request.problem.count = 8;
    request.choice.slice_elems = 4;
    return request;
  }
  PlanStanding now(std::uint64_t limit = 2, bool rests = false) const {
    return PlanStanding({lanes, layout, outgoing, nullptr, limit, rests});
  }

  test::Calls calls;
  test::FakeReceiveLink one{calls}, two{calls};
  test::FakeSendLink three{calls};
  const StepExecutor::Outgoing outgoing{{&three, 3}};
  std::vector<ReadyLane> lanes;
  const BlockLayout layout{request()};
};

}  // namespace

TEST_CASE("plan standing: the first lane that may move says where the run stands",
          "[engine][unit]") {
  Standing run;
  CHECK(run.now().text() == "in step 1 of 2, window 1 of 2");
  CHECK(run.now().steps_taken() == 0);
  run.lanes[0].position = 1;
  run.lanes[0].window = 1;
  CHECK(run.now().text() == "in step 2 of 2, window 2 of 2");
  CHECK(run.now().steps_taken() == 3);
  run.lanes[0].position = 0;
  run.lanes[0].window = 2;
  REQUIRE(run.now().position());
  CHECK(run.now().position()->lane == 1);
  run.lanes[1].window = 2;
  CHECK_FALSE(run.now().position());
  CHECK(run.now().text() == "its own part is over, but what it sent has not all been received");
  CHECK(run.now(1, true).text() ==
        "before window 2 of 2, whose data have not reached the host yet");
}

TEST_CASE("plan standing: it waits for the ranks that block a step, and later ones are silent",
          "[engine][unit]") {
  Standing run;
  CHECK(run.now().awaited() == std::vector<Rank>{1});
  CHECK(run.now().silent() == std::vector<Rank>{2});
  run.three.is_drained = false;  // has not taken an earlier slice
  CHECK(run.now().awaited() == std::vector<Rank>{1, 3});
  CHECK(run.now().awaited(Which::in_the_way) == std::vector<Rank>{1});
  run.three.is_connected = false;
  CHECK(run.now().awaited(Which::never_connected) == std::vector<Rank>{3});
  run.one.view.emplace();
  CHECK(run.now().awaited(Which::in_the_way) == std::vector<Rank>{3});
  run.lanes[0].position = 1;
  run.three.room_left = false;
  CHECK(run.now().awaited(Which::in_the_way) == std::vector<Rank>{2, 3});
  CHECK(run.now().silent().empty());
}
