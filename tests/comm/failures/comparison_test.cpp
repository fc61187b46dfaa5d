// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/comparison.hpp"

#include <catch2/catch.hpp>

#include "comm/owned.hpp"
#include "comm/parts.hpp"
#include "support/effort.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

/// Rank `rank` of 4, which are ranks 1 to 4 of the job.
struct OneOfFour : Parts {
  explicit OneOfFour(Rank rank) : Parts(rank, {1, 2, 3, 4}, 24) {}

  /// A peer's word about a call of that kind.
  Waiting word(std::uint8_t kind, std::uint64_t sequence = 0, std::string note = {}) const {
    Waiting waiting{self.id(), sequence, {}, std::move(note)};
    waiting.signature.kind = kind;
    return waiting;
  }
};

/// Two ranks, each moved on when the test says so. Call 0, a sum, has opened their links.
struct ComparedRanks {
  ComparedRanks() {
    std::vector<float> a(1), b(1);
    first.begin_sum(a);
    second.begin_sum(b);
    for (bool moved = true; moved;) {
      moved = first.round();
      moved = second.round() || moved;
    }
    first.control->published.clear();
    second.control->published.clear();
  }
  Parts first{0, {0, 1}, 35};
  Parts second{1, {0, 1}, 35};
};

Call broadcast_from(Rank root, std::vector<float>& values) {
  auto call = Parts::sum_of(values);
  call.kind = Kind::broadcast;
  call.root = root;
  return call;
}

void begin(Parts& rank, const Call& call) {
  const Owner owned(rank.progress);
  REQUIRE(rank.calls.begin(owned, call));
}

}  // namespace

TEST_CASE("comparison: a neighbour in another call is found, and both are named", "[comm][unit]") {
  OneOfFour rank(1);
  std::vector<float> values(8);
  rank.begin_sum(values, "loss");
  auto theirs = rank.record.history().at(0).value();
  CHECK_FALSE(rank.comparison.compare(2, {rank.self.id(), 0, theirs, {}}));
  theirs.count = 9;
  const auto different = rank.comparison.compare(2, {rank.self.id(), 0, theirs, {}});
  REQUIRE(different);
  CHECK(different->kind == ErrorKind::mismatch);
  CHECK(different->culprit == 3U);
  CHECK_THAT(different->message, Contains("rank 1 ") && Contains("8 float32") &&
                                     Contains("rank 2 ") && Contains("9 float32") &&
                                     Contains("\"loss\""));
}

TEST_CASE("comparison: a neighbour's later call is compared once this rank makes it",
          "[comm][unit]") {
  OneOfFour rank(1);
  std::vector<float> values(8);
  rank.begin_sum(values);
  auto theirs = rank.record.history().at(0).value();
  theirs.count = 9;
  CHECK_FALSE(rank.comparison.has_any_ahead());
  CHECK_FALSE(rank.comparison.compare(2, {rank.self.id(), 1, theirs, {}}));
  CHECK(rank.comparison.has_any_ahead());
  CHECK(rank.comparison.compare_with_ahead());
  const Owner owned(rank.progress);
  const auto begun = rank.calls.begin(owned, Parts::sum_of(values));
  REQUIRE_FALSE(begun);
  CHECK(begun.error().kind == ErrorKind::mismatch);
}

TEST_CASE("comparison: a rank that asks is told the label of a call", "[comm][unit]") {
  OneOfFour rank(1);
  std::vector<float> values(8);
  rank.begin_sum(values, "loss");
  rank.control->published.clear();
  CHECK_FALSE(rank.comparison.compare(2, rank.word(kAsksLabel, 0)));
  REQUIRE(rank.control->published.size() == 1);
  const auto& [told, to] = rank.control->published[0];
  CHECK(told.signature.kind == kTellsLabel);
  CHECK_THAT(told.note, Contains("loss"));
  CHECK(to == std::vector<std::uint32_t>{3});
}

TEST_CASE("comparison: the ring's neighbours get the last eight calls, and that they were the last",
          "[comm][unit]") {
  OneOfFour rank(1);
  std::vector<float> values(8);
  for (int call = 0; call < 20; call++) rank.begin_sum(values);
  rank.control->published.clear();
  const bool compared = GENERATE(true, false);
  rank.comparison.publish_end(compared);
  const auto& published = rank.control->published;
  REQUIRE(published.size() == (compared ? 9 : 1));
  CHECK(published.back().waiting.signature.kind == kCloses);
  for (const auto& each : published) CHECK(each.to == std::vector<std::uint32_t>{3, 1});
  if (compared) {
    CHECK(published.front().waiting.sequence == 12);
    CHECK(published[7].waiting.sequence == 19);
  }
}

TEST_CASE("comparison: who is told that a neighbour closes says so; a label wakes who waits for it",
          "[comm][unit]") {
  OneOfFour rank(1);
  const auto rings = rank.rings();
  CHECK_FALSE(rank.comparison.compare(2, rank.word(kTellsLabel)));
  CHECK(rank.rings() == rings + 1);
  CHECK_FALSE(rank.comparison.compare(2, rank.word(kCloses)));
  CHECK(rank.control->kinds_told(3) == std::vector<int>{kHeardClose});
}

TEST_CASE("comparison: rank 0 tells when all have closed, if sizes were private", "[comm][unit]") {
  const bool were_private = GENERATE(false, true);
  OneOfFour rank(0);
  Signature signature;
  signature.kind = static_cast<std::uint8_t>(Kind::all_to_all);
  signature.count = 1;
  if (were_private) {
    Call call;
    call.kind = Kind::all_to_all;
    call.block_counts = call.output_counts = {1, 1, 1, 1};
    signature = signature_of(call);
  }
  REQUIRE(has_private_sizes(signature) == were_private);
  rank.record.call_begins(kOwned, signature);
  rank.comparison.publish_end(false);
  CHECK(rank.control->kinds_told(3) == std::vector<int>{});
  rank.comparison.compare(1, rank.word(kCloses));
  rank.comparison.compare(2, rank.word(kCloses));
  CHECK(rank.control->kinds_told(2) == std::vector<int>{kHeardClose});
  rank.comparison.departed(4, 3);
  CHECK(rank.control->kinds_told(3) ==
        (were_private ? std::vector<int>{kAllClosed} : std::vector<int>{}));
}

TEST_CASE(
    "comparison: the news that all have closed, or this rank's calls with both neighbours, "
    "end the wait for them",
    "[comm][unit]") {
  OneOfFour rank(1);
  rank.comparison.await_last_calls();  // without calls there is nothing to wait for
  std::vector<float> values(8);
  rank.begin_sum(values);
  rank.comparison.compare(0, rank.word(kHeardClose));
  const auto time_of_wait = [&] {
    const auto begin = Clock::now();
    rank.comparison.await_last_calls();
    return Clock::now() - begin;
  };
  CHECK(time_of_wait() >= 200ms);
  SECTION("the other neighbour has them too") {
    rank.comparison.compare(2, rank.word(kHeardClose));
  }
  SECTION("the other neighbour closes as well") { rank.comparison.compare(2, rank.word(kCloses)); }
  SECTION("the other neighbour has gone") { rank.comparison.departed(3, 2); }
  CHECK(ccoll::testing::holds_at_last([&] { return time_of_wait() < 200ms; }));
}

TEST_CASE(
    "comparison: data of a call that is over here, too long ago to be known, were not expected",
    "[comm][unit]") {
  ComparedRanks ranks;
  std::vector<float> values(4), none;
  begin(ranks.second, broadcast_from(1, values));
  ranks.second.round();
  const auto unread = [&] {
    const Owner owned(ranks.first.progress);
    return ranks.first.comparison.unread(owned, false);
  };
  // This rank may yet make that call.
  CHECK_FALSE(unread());
  for (std::uint64_t call = 0; call <= History::kCalls; call++) {
    ranks.first.begin_sum(none);
    while (ranks.first.round()) {
    }
  }
  const auto failure = unread();
  REQUIRE(failure);
  CHECK(failure->kind == ErrorKind::mismatch);
  CHECK(failure->culprit == 1U);
  CHECK(failure->message ==
        "rank 1 sent data of broadcast of 4 float32, root 1 (call 1) to rank 0, which expected "
        "none");
}

TEST_CASE(
    "comparison: data of another call than this rank has made name both, unless neighbours "
    "exchange them now",
    "[comm][unit]") {
  ComparedRanks ranks;
  std::vector<float> values(4), others(4);
  // Each sends its own broadcast, and neither receives one.
  begin(ranks.first, broadcast_from(0, values));
  begin(ranks.second, broadcast_from(1, others));
  ranks.first.round();
  ranks.second.round();
  const Owner owned(ranks.first.progress);
  const auto failure = ranks.first.comparison.unread(owned, false);
  REQUIRE(failure);
  CHECK_THAT(failure->message, Contains("rank 0 broadcast of 4 float32, root 0 (call 1)") &&
                                   Contains("rank 1 broadcast of 4 float32, root 1 (call 1)"));
  CHECK_FALSE(ranks.first.comparison.unread(owned, true));
}

TEST_CASE("comparison: a slice of an earlier call makes both sides those of that call",
          "[comm][unit]") {
  ComparedRanks ranks;
  std::vector<float> values(4), others(4), sum(5);
  begin(ranks.first, broadcast_from(0, values));
  begin(ranks.second, broadcast_from(1, others));
  ranks.first.round();
  ranks.second.round();
  ranks.second.begin_sum(sum);
  ranks.second.round();
  const auto& suspicion = ranks.second.failures.verdict().suspicion(kOwned);
  REQUIRE(suspicion);
  CHECK(suspicion->culprit == 0U);
  CHECK_THAT(suspicion->message, Contains("rank 1 broadcast of 4 float32, root 1 (call 1)") &&
                                     Contains("rank 0 broadcast of 4 float32, root 0 (call 1)"));
  REQUIRE_FALSE(ranks.second.control->published.empty());
  const auto& asked = ranks.second.control->published.back();
  CHECK(asked.waiting.signature.kind == kAsksLabel);
  CHECK(asked.waiting.sequence == 1);
  CHECK(asked.to == std::vector<std::uint32_t>{0});
}

TEST_CASE("comparison: a peer that is ahead is told this rank's call, to compare it with its own",
          "[comm][unit]") {
  ComparedRanks ranks;
  std::vector<float> none, values(5), others(5);
  // A call without elements sends nothing.
  ranks.first.begin_sum(none);
  ranks.first.begin_sum(values);
  while (ranks.first.round()) {
  }
  ranks.second.begin_sum(others);
  ranks.second.round();
  const auto& suspicion = ranks.second.failures.verdict().suspicion(kOwned);
  REQUIRE(suspicion);
  CHECK_THAT(suspicion->message, Contains("(call 1)") && Contains("(call 2)"));
  const auto& published = ranks.second.control->published;
  REQUIRE(published.size() == 2);
  const auto mine = ranks.second.record.history().at(1).value();
  CHECK(published[0].waiting.signature == mine);
  CHECK(published[0].waiting.sequence == 1);
  CHECK(published[1].waiting.signature.kind == kAsksLabel);
  CHECK(published[1].waiting.sequence == 2);
  // The peer finds the difference in it.
  const auto found = ranks.first.comparison.compare(1, {35, 1, mine, {}});
  REQUIRE(found);
  CHECK_THAT(found->message, Contains("0 float32") && Contains("5 float32"));
}

}  // namespace ccoll::test
