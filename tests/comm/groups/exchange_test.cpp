// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/exchange.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "ccoll/call_group.hpp"
#include "comm/parts.hpp"
#include "support/ranks.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;
using ccoll::testing::run_threads;

constexpr Rank kRanks = 3;

/// Runs `body` on three ranks, which are ranks 3, 4 and 8 of the job.
std::vector<std::string> run_parts(std::uint64_t communicator,
                                   const std::function<void(Parts&)>& body) {
  std::vector<std::unique_ptr<Parts>> ranks;
  for (Rank rank = 0; rank < kRanks; rank++)
    ranks.push_back(
        std::make_unique<Parts>(rank, std::vector<std::uint32_t>{3, 4, 8}, communicator));
  return run_threads(kRanks, [&](int rank) { body(*ranks[static_cast<std::size_t>(rank)]); });
}

}  // namespace

TEST_CASE("exchange: every rank gets all ranks' bytes, in the ranks' order", "[comm]") {
  const auto errors = run_parts(901, [](Parts& rank) {
    for (std::size_t bytes : {1U, 7U, 4096U}) {
      const std::vector<std::uint8_t> mine(bytes, static_cast<std::uint8_t>(rank.self.rank() + 1));
      std::vector<std::uint8_t> all(kRanks * bytes);
      value_or_throw(rank.exchange.tell_all(kSplit, mine.data(), all.data(), bytes));
      for (std::size_t i = 0; i < all.size(); i++)
        testing::expect(all[i] == i / bytes + 1, "wrong bytes");
    }
  });
  CHECK(errors == std::vector<std::string>(kRanks));
}

TEST_CASE("exchange: it is a call like any other, of the kind and root that are shown", "[comm]") {
  const auto errors = run_parts(902, [](Parts& rank) {
    const std::uint32_t mine = rank.self.rank();
    std::array<std::uint32_t, kRanks> all{};
    value_or_throw(rank.exchange.tell_all(kGatherBytes, &mine, all.data(), sizeof mine, {}, 2));
    testing::expect(all == std::array<std::uint32_t, kRanks>{0, 1, 2}, "wrong numbers");
    const auto shown = rank.record.history().at(0);
    testing::expect(shown && shown->kind == kGatherBytes && shown->root == 2, "another signature");
    const Owner owned(rank.progress);
    testing::expect(rank.under_way.collectives(owned).next_number() == 1, "another number");
  });
  CHECK(errors == std::vector<std::string>(kRanks));
}

TEST_CASE("exchange: agreement names both texts, and the rank of the job that differs", "[comm]") {
  const auto odd = GENERATE(0U, 1U, 2U, kRanks);
  CAPTURE(odd);
  std::array<std::optional<Failure>, kRanks> found;
  const auto errors = run_parts(910 + odd, [&](Parts& rank) {
    const auto agreed = rank.exchange.agree(kMesh, rank.self.rank() == odd ? "x 3" : "y 3");
    if (!agreed) found[rank.self.rank()] = agreed.error();
  });
  CHECK(errors == std::vector<std::string>(kRanks));
  for (const auto& failure : found) {
    CHECK(failure.has_value() == (odd < kRanks));
    if (!failure) continue;
    CHECK(failure->kind == ErrorKind::mismatch);
    // Rank 0 is what the others are compared with.
    CHECK(failure->culprit == (odd == 2 ? 8U : 4U));
    CHECK_THAT(failure->message,
               Contains(odd == 0 ? "rank 0 x 3, rank 1 y 3"
                                 : "rank 0 y 3, rank " + std::to_string(odd) + " x 3"));
  }
}

TEST_CASE("exchange: it cannot wait for a group's end", "[comm][unit]") {
  Parts rank(0, {3}, 920);
  const std::uint32_t mine = 5;
  std::uint32_t all = 0;
  CallGroup group;
  const auto told = rank.exchange.tell_all(kSplit, &mine, &all, sizeof mine);
  REQUIRE_FALSE(told);
  CHECK(told.error().kind == ErrorKind::invalid_argument);
  CHECK(rank.record.history().calls() == 0);
  CHECK_FALSE(rank.exchange.agree(kMesh, "x 1"));
}

}  // namespace ccoll::test
