// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/survivors.hpp"

#include <catch2/catch.hpp>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

/// Rank `rank` of 4, which are ranks 2, 3, 5 and 7 of the job.
struct ShrunkRank : Parts {
  explicit ShrunkRank(Rank rank = 0) : Parts(rank, {2, 3, 5, 7}, 29) {}

  /// The end of every roll call: these ranks of the job are gone.
  void lose(std::vector<std::uint32_t> gone) {
    control->on_roll = [gone = std::move(gone)](Headcount& count) {
      count.state.lock()->gone = gone;
    };
  }
};

}  // namespace

TEST_CASE("survivors: are the ranks that the roll call does not count as gone", "[comm][unit]") {
  ShrunkRank rank;
  rank.lose({3, 7});
  const auto call = rank.survivors.begin({});
  REQUIRE(call);
  CHECK(rank.survivors.find(*call, 1min).value() == std::vector<Rank>{0, 2});
  REQUIRE(rank.control->rolls.size() == 1);
  CHECK(rank.control->rolls[0].ranks == std::vector<std::uint32_t>{2, 3, 5, 7});
  CHECK(rank.control->given_up.empty());
}

TEST_CASE("survivors: excluded ranks are not called", "[comm][unit]") {
  ShrunkRank rank;
  rank.lose({7});
  const auto call = rank.survivors.begin({1});
  REQUIRE(call);
  CHECK(is_without_some(call->number));
  CHECK(rank.survivors.find(*call, 1min).value() == std::vector<Rank>{0, 2});
  CHECK(rank.control->rolls[0].ranks == std::vector<std::uint32_t>{2, 5, 7});
}

TEST_CASE("survivors: ranks that exclude the same others meet in a roll call, and nobody else does",
          "[comm][unit]") {
  // Ranks meet in a roll call by its number.
  const auto number = [](Rank rank, const Ranks& excluded) {
    return ShrunkRank(rank).survivors.begin(excluded).value().number;
  };
  CHECK(number(2, {0}) == number(1, {0}));
  CHECK(number(0, {1}) != number(2, {0}));
  CHECK(number(3, {0, 1}) != number(2, {0}));
  CHECK(number(3, {}) != number(2, {0}));
}

TEST_CASE("survivors: roll calls are numbered by those that ended well, and count failed ones",
          "[comm][unit]") {
  ShrunkRank rank;
  const auto number_after = [&](bool well) {
    const auto call = rank.survivors.begin({}).value();
    rank.births.end_shrink({}, well);
    return std::pair(call.number, call.attempt);
  };
  CHECK(number_after(false) == std::pair<std::uint64_t, std::uint32_t>(0, 0));
  CHECK(number_after(true) == std::pair<std::uint64_t, std::uint32_t>(0, 1));
  CHECK(number_after(true) == std::pair<std::uint64_t, std::uint32_t>(1, 0));
}

TEST_CASE("survivors: one thread shrinks at a time", "[comm][unit]") {
  ShrunkRank rank;
  REQUIRE(rank.survivors.begin({}));
  const auto second = rank.survivors.begin({});
  REQUIRE_FALSE(second);
  CHECK(second.error().kind == ErrorKind::invalid_argument);
}

TEST_CASE("survivors: who waits too long gives up, and names those that did not come",
          "[comm][unit]") {
  ShrunkRank rank;
  rank.control->on_roll = [](Headcount& count) { count.state.lock()->awaited = {5}; };
  const auto call = rank.survivors.begin({}).value();
  bool came = false;
  auto limit = 0ms;
  SECTION("they do not come") {}
  SECTION("they do not come, though they are looked for") {
    limit = 10ms;  // the wait before the look is real
    rank.control->on_probe = [&] { pass(limit); };
  }
  SECTION("the others had counted this rank in") { came = true; }
  rank.control->on_give_up = [&](Headcount& count) {
    count.state.lock()->gone =
        came ? Result<std::vector<std::uint32_t>>(std::vector<std::uint32_t>{5})
             : tl::unexpected(Failure{ErrorKind::aborted, "given up", std::nullopt});
  };
  const auto found = rank.survivors.find(call, limit);
  REQUIRE(rank.control->given_up.size() == 1);
  CHECK(rank.control->given_up[0].kind == ErrorKind::timed_out);
  CHECK(rank.control->given_up[0].culprit == 5U);
  CHECK_THAT(rank.control->given_up[0].message, Contains("it waits for rank 2"));
  if (came) {
    CHECK(found.value() == std::vector<Rank>{0, 1, 3});
  } else {
    REQUIRE_FALSE(found);
    CHECK(found.error().message == "given up");
  }
}

TEST_CASE("survivors: a forked child's copy cannot be shrunk", "[comm][unit]") {
  ShrunkRank rank;
  rank.progress.forked();
  const auto call = rank.survivors.begin({});
  REQUIRE_FALSE(call);
  CHECK_THAT(call.error().message, Contains("forked child"));
}

TEST_CASE("survivors: the communicator's end ends the wait", "[comm][unit]") {
  ShrunkRank rank;
  const auto call = rank.survivors.begin({}).value();
  rank.failures.verdict().close();
  const auto found = rank.survivors.find(call, 1min);
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::aborted);
  CHECK_THAT(found.error().message, Contains("destroyed"));
}

}  // namespace ccoll::test
