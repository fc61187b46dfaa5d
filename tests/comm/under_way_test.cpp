// SPDX-License-Identifier: Apache-2.0
#include "comm/under_way.hpp"

#include <catch2/catch.hpp>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;

/// Rank 0 of 3, which are ranks 0 to 2 of the job.
struct BusyRank : Parts {
  BusyRank() : Parts(0, {0, 1, 2}, 31) {}
};

}  // namespace

TEST_CASE("under way: a thread waits for the ranks of its work, and of what stands before it",
          "[comm][unit]") {
  BusyRank rank;
  std::vector<float> values(8);
  const auto sum = rank.begin_sum(values);
  rank.round();
  const auto recv = rank.begin_recv(2);
  const auto any = rank.begin_recv(std::nullopt);
  const Owner owned(rank.progress);
  const auto of = [&](std::vector<std::shared_ptr<Operation>> operations) {
    return rank.under_way.awaited(owned, {{}, std::move(operations)});
  };
  CHECK(of({recv}) == std::vector<Rank>{2});
  CHECK(of({any}).empty());
  CHECK_FALSE(rank.under_way.awaited(owned, *sum).empty());
  CHECK_FALSE(of({std::make_shared<CollectiveOperation>()}).empty());
  CHECK(of({std::make_shared<StreamOperation>()}).empty());
  rank.failures.break_with(owned, {ErrorKind::aborted, "enough", 1}, false);
  CHECK(of({recv}).empty());
}

TEST_CASE("under way: the first one names all", "[comm][unit]") {
  BusyRank rank;
  const auto name = [&] {
    const Owner owned(rank.progress);
    return rank.under_way.name_of_first(owned);
  };
  CHECK(name().empty());
  rank.begin_recv(2);
  CHECK_THAT(name(), Contains("recv from rank 2"));
  std::vector<float> values(8);
  rank.begin_sum(values);
  CHECK_THAT(name(), Contains("all_reduce of 8 float32"));
}

TEST_CASE("under way: is idle while neither an operation nor a blocked thread is there",
          "[comm][unit]") {
  BusyRank rank;
  const auto is_idle = [&] {
    const Owner owned(rank.progress);
    return rank.under_way.is_idle(owned);
  };
  CHECK(is_idle());
  {
    const Signature signature;
    const Owner owned(rank.progress);
    rank.under_way.collectives(owned).block({signature, 0});
    CHECK_FALSE(rank.under_way.is_idle(owned));
    rank.under_way.collectives(owned).unblock();
  }
  CHECK(is_idle());
  rank.begin_recv(2);
  CHECK_FALSE(is_idle());
}

}  // namespace ccoll::test
