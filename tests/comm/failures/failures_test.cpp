// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/failures.hpp"

#include <catch2/catch.hpp>

#include "comm/owned.hpp"
#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

/// Rank 1 of 3, which are ranks 4, 5 and 7 of the job.
struct BreakingRank : Parts {
  BreakingRank() : Parts(1, {4, 5, 7}, 23, named()) {}

  static CommunicatorOptions named() {
    CommunicatorOptions options;
    options.name = "part";
    return options;
  }
  void break_with(const Failure& failure, bool tell) {
    const Owner owned(progress);
    failures.break_with(owned, failure, tell);
  }
};

const Failure kFirst{ErrorKind::aborted, "the first one", 7};
const Failure kSecond{ErrorKind::internal, "the second one", 4};

}  // namespace

TEST_CASE("failures: the first one ends all that is under way, and counts", "[comm][unit]") {
  BreakingRank rank;
  std::vector<float> values(4);
  const auto sum = rank.begin_sum(values, "loss");
  const auto recv = rank.begin_recv(0);
  rank.break_with(kFirst, true);
  CHECK(rank.heard_of == std::vector<std::string>{"breaks", "broke"});
  rank.break_with(kSecond, false);
  CHECK(rank.heard_of == std::vector<std::string>{"breaks", "broke", "broke again"});
  CHECK(rank.broken()->message == kFirst.message);
  // Callers have the label and this communicator's numbers, other ranks the job's.
  REQUIRE(sum->failure());
  CHECK_THAT(sum->failure()->message,
             Contains("\"loss\": part: the first one (rank 7 of the job is rank 2 here)"));
  CHECK(sum->failure()->culprit == 2U);
  REQUIRE(recv->failure);
  CHECK(recv->failure->culprit == 2U);
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].communicator == rank.self.id());
  CHECK(rank.control->floods[0].failure.message == kFirst.message);
  CHECK(rank.control->floods[0].failure.culprit == 7U);
  const Owner owned(rank.progress);
  const auto usable = rank.failures.usable(owned);
  REQUIRE_FALSE(usable);
  CHECK_THAT(usable.error().message,
             EndsWith("an earlier failure broke the communicator: " + kFirst.message));
}

TEST_CASE("failures: what others report ends all in the next round", "[comm][unit]") {
  BreakingRank rank;
  const auto recv = rank.begin_recv(0);
  const auto rings = rank.rings();
  rank.failures.hear(kFirst);
  CHECK(rank.rings() == rings + 1);
  CHECK(rank.heard_of == std::vector<std::string>{"heard the first one"});
  CHECK_FALSE(rank.broken());
  CHECK(rank.failures.first()->message == kFirst.message);
  rank.failures.hear(kSecond);
  CHECK(rank.heard_of.size() == 1);
  CHECK(rank.round());
  CHECK(recv->done);
  CHECK(rank.broken()->message == kFirst.message);
  CHECK(rank.control->floods.empty());  // whoever failed has told all
}

TEST_CASE("failures: whoever sleeps looks at what is suspected, and at who has gone",
          "[comm][unit]") {
  BreakingRank rank;
  rank.begin_recv(0);
  const auto rings = rank.rings();
  rank.news.left(7);
  CHECK(rank.rings() == rings + 1);
  CHECK(rank.failures.verdict().has_news());
  const Owner owned(rank.progress);
  rank.failures.failed(owned, {ErrorKind::peer_lost, "a link broke", 4});
  CHECK(rank.rings() == rings + 2);
}

TEST_CASE("failures: the others are told before this rank writes what it knows", "[comm][unit]") {
  BreakingRank rank;
  rank.control->on_flood = [&] { CHECK(rank.heard_of == std::vector<std::string>{"breaks"}); };
  rank.break_with(kFirst, true);
  CHECK(rank.control->floods.size() == 1);
  CHECK(rank.heard_of.back() == "broke");
}

TEST_CASE("failures: of one that is no news to its caller nobody is blamed", "[comm][unit]") {
  BreakingRank rank;
  const bool is_closed = GENERATE(false, true);
  if (is_closed) rank.failures.verdict().close();
  rank.break_with({ErrorKind::internal, "a defect", 7}, false);
  CHECK(rank.record.losses(kOwned).by_peer().size() == (is_closed ? 0 : 1));
}

TEST_CASE("failures: a forked child's operations end, and its parent's links are left alone",
          "[comm][unit]") {
  BreakingRank rank;
  std::vector<float> values(4);
  const auto sum = rank.begin_sum(values);
  const auto recv = rank.begin_recv(0);
  rank.progress.forked();
  rank.failures.verdict().notify();
  rank.round();
  REQUIRE(sum->failure());
  CHECK_THAT(sum->failure()->message, Contains("forked child"));
  CHECK(recv->done);
  CHECK(rank.heard_of.empty());
  CHECK(rank.control->floods.empty());
}

TEST_CASE("failures: a shortage of memory names this rank to the others", "[comm][unit]") {
  BreakingRank rank;
  rank.break_with({ErrorKind::exhausted, "no memory", std::nullopt}, true);
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].failure.message == "rank 1 failed: no memory");
  CHECK(rank.control->floods[0].failure.culprit == 5U);
}

TEST_CASE("failures: an exception in a step breaks the communicator", "[comm][unit]") {
  BreakingRank rank;
  const Owner owned(rank.progress);
  CHECK(rank.failures.guarded(owned, [] { return std::optional(3); }) == 3);
  CHECK_FALSE(rank.failures.broken(owned));
  const auto none = rank.failures.guarded(
      owned, []() -> std::optional<int> { throw std::runtime_error("a defect"); });
  CHECK_FALSE(none);
  REQUIRE(rank.failures.broken(owned));
  CHECK_THAT(rank.failures.broken(owned)->message, Contains("a defect"));
}

TEST_CASE("failures: a link that breaks after its rank was lost ends calls with the loss",
          "[comm][unit]") {
  BreakingRank rank;
  rank.begin_recv(0);
  rank.news.lost(7, {ErrorKind::peer_lost, "rank 7 was killed", 7});
  CHECK(rank.heard_of == std::vector<std::string>{"departed 7 as 2"});
  rank.round();
  CHECK_FALSE(rank.broken());
  {
    const Owner owned(rank.progress);
    rank.failures.failed(owned, {ErrorKind::peer_lost, "the connection was reset", 7});
  }
  REQUIRE(rank.broken());
  CHECK_THAT(rank.broken()->message, Contains("recv from rank 0") && EndsWith("rank 7 was killed"));
  // Each of the others adds the name of its own call.
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].failure.message == "rank 7 was killed");
}

TEST_CASE("failures: a lost rank ends calls that have not moved for long, and none before",
          "[comm][unit]") {
  BreakingRank rank;
  rank.news.lost(7, {ErrorKind::peer_lost, "rank 7 was killed", 7});
  rank.look_for(1min);
  CHECK_FALSE(rank.broken());  // nothing is under way
  rank.begin_recv(0);
  rank.look_for(1400ms);
  CHECK_FALSE(rank.broken());
  rank.look_for(400ms);
  REQUIRE(rank.broken());
  CHECK_THAT(rank.broken()->message, EndsWith("rank 7 was killed"));
}

TEST_CASE("failures: ranks of the job that are not here concern only the audience",
          "[comm][unit]") {
  BreakingRank rank;
  rank.begin_recv(0);
  rank.news.lost(6, {ErrorKind::peer_lost, "rank 6 was killed", 6});
  CHECK(rank.heard_of == std::vector<std::string>{"departed 6"});
  rank.news.failed(kEveryCommunicator, {ErrorKind::peer_lost, "rank 6 was killed", 6});
  rank.round();
  rank.look_for(1min);
  CHECK_FALSE(rank.broken());
}

}  // namespace ccoll::test
