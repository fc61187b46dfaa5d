// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/plan_cache.hpp"

#include <catch2/catch.hpp>

#include "engine/inproc_ranks.hpp"

namespace ccoll {
namespace {

Signature key(std::uint64_t count) {
  Signature signature;
  signature.count = count;
  return signature;
}

/// Both ranks' plans of an all_reduce, which run to their end.
test::Plans plans_that_ran(test::Links& links) {
  Problem problem;
  problem.kind = Kind::all_reduce;
  problem.size = 2;
  problem.count = 8;
  auto plans = test::make_plans(problem, {.algorithm = Algorithm::tree}, DataType::int32, links);
  std::vector<std::int32_t> data(problem.size * problem.count);
  std::vector<PlanRun> runs(problem.size);
  for (Rank rank = 0; rank < problem.size; rank++) {
    auto& run = runs[rank];
    run.input.data = run.output.data =
        reinterpret_cast<std::byte*>(data.data() + rank * problem.count);
    run.in_place = true;
    plans[rank]->start(run);
  }
  std::mt19937_64 random(1);
  test::run_to_end(plans, random);
  return plans;
}

std::uint64_t bytes_in(const PlanCache& cache) {
  TrafficTable table;
  cache.add_traffic(table);
  std::uint64_t bytes = 0;
  for (const auto& [link, traffic] : table) bytes += traffic.bytes_sent + traffic.bytes_received;
  return bytes;
}

}  // namespace

TEST_CASE("plan cache: a plan is found by its key", "[comm][unit]") {
  test::Links links(2, 1);
  auto plans = plans_that_ran(links);
  PlanCache cache;
  CHECK(cache.find(key(1)) == nullptr);
  const auto kept = cache.keep(key(1), std::move(plans[0]));
  CHECK(kept != nullptr);
  CHECK(cache.find(key(1)) == kept);
  CHECK(cache.find(key(2)) == nullptr);
}

TEST_CASE("plan cache: when it is full, plans in use stay and the others' traffic counts",
          "[comm][unit]") {
  test::Links links(2, 1), other_links(2, 2);
  PlanCache cache(2);
  auto first = plans_that_ran(links);
  auto second = plans_that_ran(other_links);
  const auto used = cache.keep(key(1), std::move(first[0]));
  const auto bytes = bytes_in(cache);
  REQUIRE(bytes > 0);
  cache.keep(key(2), std::move(first[1]));
  CHECK(bytes_in(cache) == 2 * bytes);
  cache.keep(key(3), std::move(second[0]));
  CHECK(cache.find(key(1)) == used);
  CHECK(cache.find(key(2)) == nullptr);
  CHECK(cache.find(key(3)) != nullptr);
  CHECK(bytes_in(cache) == 3 * bytes);
}

TEST_CASE("plan cache: every part of a signature counts in its hash", "[comm][unit]") {
  const SignatureHash hash;
  Signature other = key(5);
  const auto before = hash(other);
  SECTION("count") { other.count++; }
  SECTION("root") { other.root++; }
  SECTION("kind") { other.kind++; }
  SECTION("type") { other.type++; }
  SECTION("reduction") { other.op++; }
  SECTION("algorithm") { other.algorithm++; }
  CHECK(hash(other) != before);
}

}  // namespace ccoll
