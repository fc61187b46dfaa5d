// SPDX-License-Identifier: Apache-2.0
#include "control/state/cycles.hpp"

#include <catch2/catch.hpp>
#include <optional>

namespace ccoll::control {
namespace {

/// The ranks wait in the calls given; routes their questions until there are none left. Returns
/// what the asker finds.
std::optional<Cycles::Found> ask(std::vector<Cycles>& ranks, std::uint32_t asker,
                                 std::uint64_t communicator, std::uint64_t sequence) {
  auto questions = ranks[asker].seek(communicator, sequence);
  std::optional<Cycles::Found> found;
  for (std::size_t next = 0; next < questions.size(); next++) {
    const Publication asked = questions[next];
    if (asked.to == asker) {
      if (auto cycle = ranks[asker].come_back(asked, false)) found = std::move(cycle);
      continue;
    }
    for (auto& further : ranks[asked.to].pass_on(asked, false))
      questions.push_back(std::move(further));
  }
  return found;
}

std::vector<Cycles> ranks_in(std::uint32_t size) {
  std::vector<Cycles> ranks;
  for (std::uint32_t rank = 0; rank < size; rank++) ranks.emplace_back(rank);
  return ranks;
}

TEST_CASE("cycles: a question that comes back tells the asker its path, once", "[unit]") {
  auto ranks = ranks_in(3);
  ranks[0].set_waits(1, {{1, 7, "barrier", {1}}});
  ranks[1].set_waits(2, {{2, 3, "all_reduce", {2}}});
  ranks[2].set_waits(3, {{3, 9, "recv", {0}}});
  const auto found = ask(ranks, 0, 1, 7);
  REQUIRE(found);
  CHECK(found->communicator == 1);
  CHECK(found->sequence == 7);
  CHECK(found->path ==
        "rank 0 waits in barrier for rank 1, which waits in all_reduce for rank 2, which waits in "
        "recv for rank 0");
}

TEST_CASE("cycles: without a cycle nothing comes back, nor for a call that nobody waits in",
          "[unit]") {
  auto ranks = ranks_in(3);
  ranks[0].set_waits(1, {{1, 7, "barrier", {1}}});
  ranks[1].set_waits(2, {{2, 3, "all_reduce", {2}}});
  CHECK_FALSE(ask(ranks, 0, 1, 7));
  CHECK_FALSE(ask(ranks, 0, 1, 8));
  ranks[0].set_waits(1, {});
  CHECK_FALSE(ask(ranks, 0, 1, 7));
}

TEST_CASE("cycles: a rank passes a question on once, and the path of a long one ends in its length",
          "[unit]") {
  auto ranks = ranks_in(60);
  for (std::uint32_t rank = 0; rank < 60; rank++)
    ranks[rank].set_waits(rank, {{rank, 0, std::string(100, 'x'), {(rank + 1) % 60}}});
  const auto found = ask(ranks, 0, 0, 0);
  REQUIRE(found);
  CHECK(found->path.size() < kMaxNote + 100);
  CHECK(found->path.ends_with(", ... (60 ranks), which waits for rank 0"));

  Publication asked{5, 0, {}, false};
  asked.waiting.communicator = 77;
  CHECK(ranks[0].pass_on(asked, false).size() == 1);
  CHECK(ranks[0].pass_on(asked, false).empty());
}

}  // namespace
}  // namespace ccoll::control
