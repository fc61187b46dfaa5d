// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/limits.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using What = MessageOperation::What;

/// Rank 0 of 3, which are ranks 0 to 2 of the job.
struct LimitedRank : Parts {
  LimitedRank() : Parts(0, {0, 1, 2}, 22) {}
};

}  // namespace

TEST_CASE("limits: a receive ends all once its time is over, and names its sender",
          "[comm][unit]") {
  LimitedRank rank;
  const auto operation = rank.begin_recv(2, 5s);
  rank.look_for(4900ms);
  CHECK_FALSE(rank.broken());
  CHECK_FALSE(operation->done);
  rank.look_for(200ms);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::timed_out);
  CHECK(rank.broken()->culprit == 2U);
  CHECK_THAT(rank.broken()->message, Contains("recv from rank 2") && Contains("timed out after 5"));
  CHECK(operation->done);
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].failure.message == rank.broken()->message);
}

TEST_CASE("limits: a probe that finds nothing ends alone", "[comm][unit]") {
  LimitedRank rank;
  const auto probe = rank.begin(What::probe, 1, 1s);
  const auto recv = rank.begin_recv(1, 60s);
  rank.look_for(1100ms);
  CHECK(probe->done);
  REQUIRE(probe->failure);
  CHECK(probe->failure->kind == ErrorKind::timed_out);
  CHECK_FALSE(recv->done);
  CHECK_FALSE(rank.broken());
}

TEST_CASE("limits: a collective that times out names the rank that it waits for", "[comm][unit]") {
  LimitedRank rank;
  std::vector<float> values(8);
  {
    auto call = Parts::sum_of(values);
    call.timeout = 2s;
    const Owner owned(rank.progress);
    REQUIRE(rank.calls.begin(owned, call));
  }
  rank.round();
  rank.look_for(1900ms);
  CHECK_FALSE(rank.broken());
  // Late calls are compared with the neighbours'.
  CHECK_FALSE(rank.control->published.empty());
  rank.look_for(200ms);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::timed_out);
  CHECK_THAT(rank.broken()->message, Contains("all_reduce of 8 float32") && Contains("waits for"));
  CHECK(rank.broken()->culprit);
}

TEST_CASE("limits: who waits for a rank that left ends when nothing of it can come any more",
          "[comm][unit]") {
  LimitedRank rank;
  rank.begin_recv(1);
  rank.news.left(2);
  rank.look_for(5s);
  CHECK_FALSE(rank.broken());
  rank.news.left(1);
  rank.look_for(500ms);
  CHECK_FALSE(rank.broken());
  rank.look_for(2s);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::peer_lost);
  CHECK(rank.broken()->culprit == 1U);
}

TEST_CASE("limits: a message that waits asks whether who never connected has left, each second",
          "[comm][unit]") {
  LimitedRank rank;
  const bool is_of_any = GENERATE(false, true);
  rank.begin_recv(is_of_any ? std::optional<Rank>() : 1);
  const auto asked = [&](std::uint32_t peer) {
    const auto published = rank.control->published;
    const auto kinds = rank.control->kinds_told(peer);
    rank.control->published = published;
    return std::ranges::count(kinds, static_cast<int>(kAsksClosed));
  };
  rank.look_for(490ms);
  CHECK(asked(1) == 0);
  rank.look_for(20ms);
  CHECK(asked(1) == 1);
  CHECK(asked(2) == (is_of_any ? 1 : 0));
  for (int second = 0; second < 3; second++) rank.look_for(1s);
  CHECK(asked(1) == 4);
  const auto answer = [&](std::uint32_t peer) {
    CHECK_FALSE(rank.news.compare(peer, {rank.self.id(), 0, {.kind = kHasClosed}}));
    rank.look_for(900ms);
    CHECK_FALSE(rank.broken());
    rank.look_for(200ms);
  };
  if (is_of_any) {
    answer(2);
    CHECK_FALSE(rank.broken());
  }
  answer(1);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::peer_lost);
  CHECK_THAT(rank.broken()->message, Contains("rank 1") && Contains("left"));
  REQUIRE(rank.control->floods.size() == 1);
}

TEST_CASE("limits: what moves beside a message does not delay its question", "[comm][unit]") {
  LimitedRank rank;
  rank.begin_recv(1);
  for (int step = 0; step < 10; step++) {
    rank.look_for(60ms);
    const Owner owned(rank.progress);
    rank.progress.move(owned);
  }
  const auto kinds = rank.control->kinds_told(1);
  CHECK(std::ranges::count(kinds, static_cast<int>(kAsksClosed)) == 1);
  CHECK(rank.control->probes.empty());
}

TEST_CASE("limits: a collective that waits asks whether who never connected has left",
          "[comm][unit]") {
  LimitedRank rank;
  std::vector<float> values(8);
  rank.begin_sum(values);
  rank.round();
  rank.look_for(900ms);
  std::vector<std::uint32_t> asked;
  const auto take_asked = [&] {
    for (const auto& [waiting, to] : std::exchange(rank.control->published, {}))
      if (waiting.signature.kind == kAsksClosed) asked = to;
  };
  take_asked();
  CHECK(asked.empty());
  rank.look_for(1s);
  take_asked();
  REQUIRE_FALSE(asked.empty());
  rank.news.compare(asked.front(), {rank.self.id(), 0, {.kind = kHasClosed}});
  rank.look_for(1100ms);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::peer_lost);
  CHECK(rank.broken()->culprit == asked.front());
  CHECK_THAT(rank.broken()->message, Contains("which has left"));
}

TEST_CASE("limits: a collective that asks each second does not keep messages from asking",
          "[comm][unit]") {
  LimitedRank rank;
  std::vector<float> values(8);
  rank.begin_sum(values);
  rank.round();
  std::map<std::uint32_t, int> asked;
  const auto look = [&](int times) {
    asked.clear();
    for (int i = 0; i < times; i++) rank.look_for(1s);
    for (const auto& [waiting, to] : std::exchange(rank.control->published, {}))
      for (const auto peer : to) asked[peer] += waiting.signature.kind == kAsksClosed ? 1 : 0;
  };
  look(2);
  const Rank other = asked[1] > 0 ? 2 : 1;
  REQUIRE(asked[3 - other] > 0);
  const int by_collective = asked[other];
  rank.begin_recv(other);
  look(4);
  CHECK(asked[3 - other] > 0);
  CHECK(asked[other] > 2 * by_collective);
}

TEST_CASE("limits: a broken link counts unless a better cause is heard in time", "[comm][unit]") {
  LimitedRank rank;
  const auto recv = rank.begin_recv(1);
  {
    const Owner owned(rank.progress);
    rank.failures.failed(owned, {ErrorKind::peer_lost, "a link broke", 1});
  }
  rank.look_for(500ms);
  CHECK_FALSE(rank.broken());
  SECTION("none is heard") {
    rank.look_for(200ms);
    REQUIRE(rank.broken());
    CHECK_THAT(rank.broken()->message, Contains("a link broke"));
  }
  SECTION("one is heard") {
    rank.news.failed(rank.self.id(), {ErrorKind::aborted, "rank 2 aborted", 2});
    rank.round();
    REQUIRE(rank.broken());
    CHECK_THAT(rank.broken()->message, Contains("rank 2 aborted"));
  }
  CHECK(recv->done);
}

}  // namespace ccoll::test
