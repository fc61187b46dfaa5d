// SPDX-License-Identifier: Apache-2.0
// The time limits of a start-up, by a clock that a test sets on: no case waits for them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "control/word.hpp"
#include "core/patience.hpp"
#include "harness.hpp"
#include "support/logged.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

/// A store that answers late by the clock of the tests alone. No rank but the caller comes to it.
class LonelyStore final : public SmallStore {
 public:
  /// How long a list takes.
  explicit LonelyStore(Timeout listing = 0ms) : listing_(listing) {}

  void set(std::string_view key, std::string_view, Timeout) override { keys_.emplace_back(key); }
  std::string get(std::string_view, Timeout timeout) override {
    longest_ = std::max(longest_, timeout);
    skip(timeout);
    throw Error(ErrorKind::timed_out, "no such key");
  }
  std::vector<std::string> list(std::string_view, Timeout timeout) override {
    skip(std::min(timeout, listing_));
    return keys_;
  }
  bool compare_set(std::string_view, std::optional<std::string_view>, std::string_view,
                   Timeout) override {
    return true;
  }

  Timeout longest_wait() const { return longest_; }

 private:
  const Timeout listing_;
  std::vector<std::string> keys_;
  Timeout longest_{0};
};

/// The message of a start-up of two, which fails, and that took its limit and little more.
std::string message_of(std::uint32_t rank, Store& store, milliseconds limit) {
  Member member = make_member(rank, 2, limit);
  const auto begin = now_with_skips();
  const auto joined = member.control->join(store);
  const auto taken = now_with_skips() - begin;
  REQUIRE_FALSE(joined);
  CHECK(joined.error().kind == ErrorKind::timed_out);
  CHECK(taken >= limit);
  CHECK(taken < limit + 20s);
  return joined.error().message;
}

}  // namespace

TEST_CASE("limits: a rank whose parent does not come tries until its limit", "[control]") {
  LonelyStore store;
  CHECK(message_of(1, store, 1h) ==
        "start-up: 1 of 2 ranks did not come within 3600 s: rank 0 (known so far: rank 1)");
  // It looks about between two requests.
  CHECK(store.longest_wait() <= 2s);
}

TEST_CASE("limits: a rank for which nobody comes waits until its limit", "[control]") {
  LonelyStore store(1h);
  CHECK(message_of(0, store, 1h) ==
        "start-up: 1 of 2 ranks did not come within 3600 s: rank 1 (known so far: rank 0)");
}

TEST_CASE("limits: a rank that waits says so now and then, but not just before its limit",
          "[control]") {
  // After 10 s, and then each minute: last after 250 s.
  const auto [limit, times] = GENERATE(std::pair(260s, 5), std::pair(252s, 4));
  LonelyStore store;
  const HavingPatience having({.warn_after = 1min});
  const auto text = logged([&, limit = limit] { message_of(1, store, limit); });
  CHECK(count_of("rank 0 (known so far: rank 1); rank 1 keeps waiting", text) == times);
  CHECK_THAT(text, Contains("did not come within 10") && Contains("did not come within 190"));
}

TEST_CASE("limits: ranks that come within the limit meet, however late", "[control]") {
  CountingStore store;
  Member child = make_member(1, 2, 1h);
  auto joined = std::async(std::launch::async, [&] { return child.control->join(store); });
  REQUIRE(eventually([&] { return store.keys() == 1; }));
  skip(50min);
  Member root = make_member(0, 2, 1h);
  CHECK(root.control->join(store));
  CHECK(joined.get());
}

TEST_CASE("limits: words count if they are younger than the last start-up here", "[control]") {
  const auto word_at = [](Clock::time_point began) {
    return control::Word{{ErrorKind::aborted, "why", 1}, 7, began, {}};
  };
  const auto before = now_with_skips();
  skip(1h);
  {
    const control::ThisStart earlier(7, &now_with_skips);
    CHECK(earlier.word({}, {}).began >= before + 1h);
    skip(1h);
  }
  skip(1h);
  const control::ThisStart start(7, &now_with_skips);
  CHECK_FALSE(start.has(word_at(before + 1h + 59min)));
  CHECK(start.has(word_at(before + 2h + 59min)));
}

}  // namespace ccoll::testing
