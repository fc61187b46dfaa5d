// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/calls_ahead.hpp"

#include <catch2/catch.hpp>
#include <memory>

namespace ccoll {
namespace {

Waiting call(std::uint64_t sequence, std::string note = {}) {
  return {.communicator = 1, .sequence = sequence, .signature = {}, .note = std::move(note)};
}

/// The numbers of the calls that are compared now, in that order.
std::vector<std::uint64_t> compared(CallsAhead& ahead, const History& mine) {
  std::vector<std::uint64_t> numbers;
  const auto status = ahead.compare_reached(mine, [&](Rank, const Waiting& each) {
    numbers.push_back(each.sequence);
    return std::optional<Failure>();
  });
  CHECK(status);
  return numbers;
}

}  // namespace

TEST_CASE("calls ahead: a call that this rank has made is not kept", "[comm][unit]") {
  CallsAhead ahead;
  History mine;
  mine.record({});
  CHECK_FALSE(ahead.keep(3, call(0), mine));
  CHECK_FALSE(ahead.has_any());
  CHECK(ahead.keep(3, call(1), mine));
  CHECK(ahead.has_any());
}

TEST_CASE("calls ahead: each is compared once, when this rank has reached it", "[comm][unit]") {
  CallsAhead ahead;
  History mine;
  for (const std::uint64_t number : {2, 0, 1}) CHECK(ahead.keep(3, call(number), mine));
  CHECK(compared(ahead, mine).empty());
  mine.record({});
  mine.record({});
  CHECK(compared(ahead, mine) == std::vector<std::uint64_t>{0, 1});
  CHECK(ahead.has_any());
  CHECK(compared(ahead, mine).empty());
  mine.record({});
  CHECK(compared(ahead, mine) == std::vector<std::uint64_t>{2});
  CHECK_FALSE(ahead.has_any());
}

TEST_CASE("calls ahead: a repeated word counts once, but once for each rank", "[comm][unit]") {
  CallsAhead ahead;
  History mine;
  for (const Rank from : {3, 4, 3}) CHECK(ahead.keep(from, call(0), mine));
  mine.record({});
  CHECK(compared(ahead, mine) == std::vector<std::uint64_t>{0, 0});
}

TEST_CASE("calls ahead: the first difference is told, and none is compared again", "[comm][unit]") {
  CallsAhead ahead;
  History mine;
  for (const Rank from : {3, 4, 5}) CHECK(ahead.keep(from, call(0, "theirs"), mine));
  mine.record({});
  const auto status = ahead.compare_reached(mine, [](Rank from, const Waiting& each) {
    if (from == 3) return std::optional<Failure>();
    return std::optional<Failure>({ErrorKind::mismatch, each.note, from});
  });
  REQUIRE_FALSE(status);
  CHECK(status.error().message == "theirs");
  CHECK(status.error().culprit == 4U);
  CHECK(compared(ahead, mine).empty());
}

TEST_CASE("calls ahead: a rank that runs far ahead takes no more memory than the history",
          "[comm][unit]") {
  CallsAhead ahead;
  History mine;
  for (std::uint64_t number = 0; number < 3 * History::kCalls; number++)
    CHECK(ahead.keep(3, call(number), mine));
  for (std::uint64_t number = 0; number < 3 * History::kCalls; number++) mine.record({});
  CHECK(compared(ahead, mine).size() == History::kCalls);
}

}  // namespace ccoll
