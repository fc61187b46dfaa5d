// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/comparison.hpp"

#include <catch2/catch.hpp>

#include "comm/owned.hpp"
#include "comm/parts.hpp"

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

}  // namespace ccoll::test
