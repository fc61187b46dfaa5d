// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/control_news.hpp"

#include <catch2/catch.hpp>

#include "comm/owned.hpp"
#include "comm/parts.hpp"
#include "engine/mix.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;

/// Rank 0 of 3, which are ranks 3 to 5 of the job.
struct ToldRank : Parts {
  ToldRank() : Parts(0, {3, 4, 5}, 25) {}
};

}  // namespace

TEST_CASE("control news: a question for this rank's stand is answered to whoever asks",
          "[comm][unit]") {
  ToldRank rank;
  Waiting asks{rank.self.id(), 0, {}, {}};
  asks.signature.kind = kAsksStand;
  CHECK_FALSE(rank.news.compare(5, asks));
  CHECK(rank.control->kinds_told(5) == std::vector<int>{kTellsStand});
  CHECK_FALSE(rank.news.compare(9, asks));  // no rank of this communicator
  CHECK(rank.control->published.empty());
}

TEST_CASE("control news: a rank that is still there does not answer whether it has left",
          "[comm][unit]") {
  ToldRank rank;
  CHECK_FALSE(rank.news.compare(5, {rank.self.id(), 0, {.kind = kAsksClosed}}));
  CHECK(rank.control->published.empty());
  CHECK_FALSE(rank.comparison.has_any_ahead());
}

TEST_CASE("control news: who has left is known by its number here, and is not gone from the job",
          "[comm][unit]") {
  ToldRank rank;
  CHECK_FALSE(rank.news.compare(9, {rank.self.id(), 0, {.kind = kHasClosed}}));
  auto next = Clock::time_point::max();
  CHECK(rank.failures.departures().long_gone({}, now_shown(), next).empty());
  CHECK_FALSE(rank.news.compare(5, {rank.self.id(), 0, {.kind = kHasClosed}}));
  CHECK(rank.failures.departures().long_gone({}, now_shown(), next) == Ranks{2});
  CHECK(rank.heard_of.empty());
  CHECK(rank.failures.first_text().empty());
}

TEST_CASE("control news: an answer about a stand becomes part of the error", "[comm][unit]") {
  ToldRank rank;
  {
    const Owner owned(rank.progress);
    rank.waits.ask_for_stands(owned, {7, now_shown(), {2}});
  }
  rank.news.compare(5, {rank.self.id(), 7, {.kind = kTellsStand}, "had ended it"});
  CHECK_THAT(rank.waits.stands().answers_about(7, now_shown()), Contains("had ended it"));
}

TEST_CASE("control news: a call has begun once this rank has recorded it", "[comm][unit]") {
  ToldRank rank;
  CHECK_FALSE(rank.news.has_begun(0));
  rank.record.call_begins(kOwned, {});
  CHECK(rank.news.has_begun(0));
  CHECK_FALSE(rank.news.has_begun(1));
}

TEST_CASE("control news: subgroups that wait for each other in vain end on all ranks",
          "[comm][unit]") {
  ToldRank rank;
  const Ranks mine{0, 1}, theirs{0, 1, 2};
  const auto begun = rank.births.begin_subgroup(mine, false);
  REQUIRE(begun);
  Waiting announced{
      rank.self.id(), 0, {.count = mix_ranks(theirs), .kind = kSubgroup}, "ranks 0-2"};
  CHECK_FALSE(rank.news.compare(4, announced));
  REQUIRE(rank.control->floods.size() == 2);
  CHECK(rank.control->floods[0].communicator == rank.births.subgroup_id(mix_ranks(theirs), 0));
  CHECK(rank.control->floods[1].communicator == begun->id);
  for (const auto& flooded : rank.control->floods) {
    CHECK(flooded.failure.kind == ErrorKind::mismatch);
    CHECK(flooded.failure.culprit == 4U);
    CHECK_THAT(flooded.failure.message, Contains("ranks 0, 1") && Contains("ranks 0-2"));
  }
  // Told once, it is known.
  CHECK_FALSE(rank.news.compare(4, announced));
  CHECK(rank.control->floods.size() == 2);
}

TEST_CASE("control news: the loss of this very rank ends all at once", "[comm][unit]") {
  ToldRank rank;
  const auto recv = rank.begin_recv(1);
  rank.news.lost(3, {ErrorKind::peer_lost, "rank 3 fell silent", 3});
  rank.round();
  REQUIRE(rank.broken());
  CHECK_THAT(rank.broken()->message, Contains("rank 3 fell silent"));
  CHECK(recv->done);
}

}  // namespace ccoll::test
