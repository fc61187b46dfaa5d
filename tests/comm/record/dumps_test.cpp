// SPDX-License-Identifier: Apache-2.0
#include "comm/record/dumps.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

/// Rank 0 of 3, which are ranks 0 to 2 of the job.
struct DumpedRank : Parts {
  DumpedRank() : Parts(0, {0, 1, 2}, 26) {}
};

}  // namespace

TEST_CASE("dumps: show what is under way, and the ranks that it waits for", "[comm][unit]") {
  DumpedRank rank;
  std::vector<float> values(8);
  rank.begin_sum(values, "loss");
  rank.begin_recv(2);
  rank.round();
  const auto dump = json::parse(rank.dumps.text());
  REQUIRE(dump["under_way"].size() == 2);
  const auto sum = dump["under_way"][0], recv = dump["under_way"][1];
  CHECK_THAT(sum["text"].get<std::string>(),
             Contains("all_reduce of 8 float32") && Contains("\"loss\""));
  CHECK(sum["waits_for"].size() == 2);
  CHECK_THAT(recv["text"].get<std::string>(), Contains("recv from rank 2 tag 7"));
  CHECK(recv["waits_for"][0]["rank"] == 2);
  CHECK_FALSE(dump.contains("failure"));
}

TEST_CASE("dumps: after a failure they show how operations stood before it", "[comm][unit]") {
  DumpedRank rank;
  rank.begin_recv(2);
  {
    const Owner owned(rank.progress);
    rank.failures.break_with(owned, {ErrorKind::aborted, "enough", 1}, true);
  }
  const auto dump = json::parse(rank.dumps.text());
  CHECK(dump["under_way"].size() == 1);
  CHECK_THAT(dump["failure"]["message"].get<std::string>(), Contains("enough"));
  CHECK(dump["failure"]["culprit"] == 1);
}

}  // namespace ccoll::test
