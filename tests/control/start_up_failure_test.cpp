// SPDX-License-Identifier: Apache-2.0
#include "control/start_up_failure.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "control/tree.hpp"
#include "control/wire.hpp"
#include "core/text.hpp"
#include "harness.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Ranks = std::vector<std::uint32_t>;

Standing standing_of(std::uint32_t rank, std::uint32_t size) {
  Standing standing;
  standing.rank = rank;
  standing.size = size;
  return standing;
}

void come(testing::CountingStore& store, const Ranks& ranks) {
  for (const auto rank : ranks) store.set(key_of(rank), "", 1s);
}

}  // namespace

TEST_CASE("start-up failure: it names just the ranks without a key, and blames the first",
          "[unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; trial++) {
    const std::uint32_t size = 2 + random() % 40;
    testing::CountingStore store;
    Standing standing = standing_of(0, size);
    Ranks known, missing;
    for (std::uint32_t rank = 0; rank < size; rank++) {
      const bool has_key = random() % 4 != 0, declines = random() % 8 == 0;
      if (has_key) come(store, {rank});
      if (declines) standing.declined.push_back(rank);
      (has_key && !declines ? known : missing).push_back(rank);
    }
    if (missing.empty()) continue;
    const auto keys = store.requests();
    // Keys that are no rank's of this job: they neither count nor do harm.
    for (const char* key : {"control/", "control/x", "control/1x", "control/-1", "control/99999999",
                            "control/4294967296", "other/1"})
      store.set(key, "", 1s);
    come(store, {size});
    const auto failure = judge(standing, 1500ms, store);
    CAPTURE(size, known, missing, failure.message);
    CHECK(failure == missing_ranks(size, 1500ms, missing, known));
    CHECK(failure.kind == ErrorKind::timed_out);
    CHECK(failure.culprit == missing.front());
    CHECK_THAT(failure.message, Contains(fmt::format("{} of {} ranks", missing.size(), size)) &&
                                    Contains("within 1.5 s: " + list_ranks(missing) +
                                             " (known so far: " + list_ranks(known) + ")"));
    CHECK(store.requests() == keys + 9);  // one to ask, besides those that set the eight keys
  }
}

TEST_CASE("start-up failure: where the store does not tell, it names those for which a rank waits",
          "[unit]") {
  const bool answers = GENERATE(false, true);
  testing::CountingStore store;
  come(store, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  if (!answers) store.break_down();
  Standing standing = standing_of(1, 9);
  const auto message = [&] {
    const auto failure = judge(standing, 60s, store);
    CHECK(failure.kind == ErrorKind::timed_out);
    CHECK_FALSE(failure.culprit);
    CHECK_THAT(failure.message,
               Contains(answers ? "has an address of each of the 9 ranks, of this start or an "
                                  "earlier one, but rank 1"
                                : "the store does not say which ranks came, but rank 1"));
    return failure.message;
  };
  CHECK_THAT(message(), EndsWith("rank 1 waited 60 s in vain for rank 0"));
  standing.parent_met = true;
  standing.unreported = {3, 4};
  CHECK_THAT(message(), EndsWith("in vain for one or more of " + list_ranks({3, 4, 7, 8})));
  standing.unreported = {};
  standing.unmet = {2};
  standing.table_complete = true;
  CHECK_THAT(message(), EndsWith("in vain for its ring neighbour rank 2"));
  standing.last_trouble = "why";
  standing.refusal = "another token";
  CHECK_THAT(message(), EndsWith("neighbour rank 2 (last: why); a connection was refused "
                                 "meanwhile: another token"));
}

TEST_CASE("start-up failure: a duration is told in seconds", "[unit]") {
  CHECK(in_seconds(60s) == "60 s");
  CHECK(in_seconds(250ms) == "0.25 s");
  CHECK(in_seconds(0ms) == "0 s");
}

}  // namespace ccoll::control
