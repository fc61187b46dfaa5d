// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/planner.hpp"

#include <catch2/catch.hpp>

#include "comm/groups/costs.hpp"

namespace ccoll {
namespace {

/// Rank 1 of that many on one host.
Planner::Setting setting_of(Rank size) {
  return {.rank = 1, .size = size, .costs = costs_over("shm", 1, true)};
}

Call call_of(Kind kind, std::size_t count) {
  Call call;
  call.kind = kind;
  call.count = count;
  call.type = DataType::float32;
  return call;
}

/// A v-operation with such blocks.
Call ragged_of(Kind kind, std::vector<std::uint64_t> counts) {
  auto call = call_of(kind, 0);
  call.block_counts = std::move(counts);
  return call;
}

Signature key_of(const Planner& planner, const Call& call) {
  return planner.key_of(call, signature_of(call));
}

}  // namespace

TEST_CASE("planner: an option of the call has precedence over the communicator's", "[comm][unit]") {
  auto setting = setting_of(4);
  setting.forced.algorithm = Algorithm::ring;
  setting.forced.max_lanes = 3;
  const Planner planner(setting);
  CHECK(planner.forced(std::nullopt).algorithm == Algorithm::ring);
  CHECK(planner.forced(Algorithm::tree).algorithm == Algorithm::tree);
  CHECK(planner.forced(Algorithm::tree).max_lanes == std::uint16_t{3});
}

TEST_CASE("planner: the cores per rank tell whether ranks take turns", "[comm][unit]") {
  const auto with_cores = [](double cores) {
    auto setting = setting_of(4);
    setting.costs.cores_per_rank = cores;
    return Planner(setting);
  };
  CHECK(with_cores(0.5).is_oversubscribed());
  CHECK_FALSE(with_cores(0.5).fills_cores());
  CHECK_FALSE(with_cores(1).is_oversubscribed());
  CHECK(with_cores(1).fills_cores());
  CHECK_FALSE(with_cores(2).fills_cores());
}

TEST_CASE("planner: a call's problem has its ranks and hosts", "[comm][unit]") {
  auto setting = setting_of(4);
  setting.hosts = {0, 0, 1, 1};
  auto call = call_of(Kind::broadcast, 100);
  call.root = 2;
  const auto problem = Planner(setting).problem_of(call);
  CHECK(problem.kind == Kind::broadcast);
  CHECK(problem.size == 4);
  CHECK(problem.root == 2);
  CHECK(problem.count == 100);
  CHECK(problem.host_of == setting.hosts);
}

TEST_CASE("planner: calls with ragged blocks share plans for a mean size", "[comm][unit]") {
  const Planner planner(setting_of(2));
  // The means are 5, 7 and 9 elements.
  const auto five = ragged_of(Kind::all_gather, {1, 9});
  const auto seven = ragged_of(Kind::all_gather, {14, 0});
  const auto nine = ragged_of(Kind::all_gather, {9, 9});
  CHECK(key_of(planner, five) == key_of(planner, seven));
  CHECK_FALSE(key_of(planner, five) == key_of(planner, nine));
  CHECK_FALSE(planner.problem_of(seven).block_counts.empty());
  // An equal call of the rounded size has another plan.
  CHECK_FALSE(key_of(planner, seven) == key_of(planner, call_of(Kind::all_gather, 8)));
}

TEST_CASE("planner: sizes that only two ranks know do not count", "[comm][unit]") {
  const Planner planner(setting_of(2));
  auto one = ragged_of(Kind::all_to_all, {1, 2});
  one.output_counts = {1, 2};
  auto other = ragged_of(Kind::all_to_all, {300, 400});
  other.output_counts = {300, 5};
  CHECK(key_of(planner, one) == key_of(planner, other));
}

TEST_CASE("planner: a request has this rank's program for the chosen algorithm", "[comm][unit]") {
  auto setting = setting_of(4);
  setting.cached_bytes = 12345;
  setting.costs.cores_per_rank = 0.5;
  const Planner planner(setting);
  auto call = call_of(Kind::all_reduce, 1000);
  call.op = ReduceOp::max;
  call.algorithm = Algorithm::ring;
  const auto request = planner.request_for(call);
  REQUIRE(request);
  CHECK(request->choice.algorithm == Algorithm::ring);
  CHECK(request->program == make_program(request->problem, request->choice, setting.rank));
  CHECK(request->type == DataType::float32);
  CHECK(request->op == ReduceOp::max);
  CHECK(request->cached_bytes == 12345);
  CHECK(request->oversubscribed);
  CHECK_FALSE(request->count_check);
}

}  // namespace ccoll
