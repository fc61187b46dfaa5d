// SPDX-License-Identifier: Apache-2.0
// Ranks that do not come to a start-up and give the reason in the store.
#include <catch2/catch.hpp>
#include <future>

#include "control/tree.hpp"
#include "control/word.hpp"
#include "harness.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

constexpr std::uint32_t kSize = 6;
/// The host of all members.
constexpr std::uint64_t kHost = 0;

Failure why_of(std::uint32_t rank) {
  return {ErrorKind::exhausted, fmt::format("rank {} has no descriptor", rank), rank};
}

/// Connections of the tree between the others.
std::size_t connections_without(std::uint32_t absent) {
  std::size_t count = 0;
  for (std::uint32_t rank = 1; rank < kSize; rank++)
    if (rank != absent && control::parent_of(rank) != absent) count++;
  return count;
}
std::size_t opened(const std::vector<Member>& members) {
  std::size_t count = 0;
  for (const Member& member : members) count += member.control->statistics().opened;
  return count;
}

}  // namespace

TEST_CASE("a rank that declines ends the start-up of those who wait for it, and of nobody later",
          "[control]") {
  const std::uint32_t absent = GENERATE(range(0u, kSize));
  CAPTURE(absent);
  CountingStore store;
  const auto start = Clock::now();
  std::vector<Member> members;
  for (std::uint32_t rank = 0; rank < kSize; rank++)
    if (rank != absent) members.push_back(make_member(rank, kSize, 30s));
  std::vector<std::future<Status>> outcomes;
  for (auto& member : members)
    outcomes.push_back(std::async(std::launch::async, [&] { return member.control->join(store); }));
  REQUIRE(eventually([&] { return opened(members) >= connections_without(absent); }));
  Control::decline(store, absent, kHost, now_with_skips(), why_of(absent));
  for (auto& outcome : outcomes) {
    const auto status = outcome.get();
    REQUIRE_FALSE(status);
    CHECK(status.error() == why_of(absent));
  }
  CHECK(Clock::now() - start < 10s);
  members.clear();
  // Everything left in the store is from an earlier start-up.
  for (const auto& member : join_all(kSize, store)) CHECK(member.joined);
}

TEST_CASE("an earlier start-up's word ends none, but is told where its rank does not come again",
          "[control]") {
  CountingStore store;
  Control::decline(store, 0, kHost, now_with_skips() - 24h, why_of(0));
  Member late = make_member(1, 2, 500ms);
  const auto status = late.control->join(store);
  REQUIRE_FALSE(status);
  CHECK(status.error().kind == ErrorKind::timed_out);
  CHECK_THAT(
      status.error().message,
      Contains("rank 0 did not complete this start-up or an earlier one: " + why_of(0).message));
}

TEST_CASE("words of other hosts, whose clocks are others, end no start-up", "[control]") {
  CountingStore store;
  Control::decline(store, 1, kHost + 1, now_with_skips() + 24h, why_of(1));
  Member root = make_member(0, 2, 1500ms);
  const auto status = root.control->join(store);
  REQUIRE_FALSE(status);
  CHECK(status.error().kind == ErrorKind::timed_out);
  CHECK_THAT(status.error().message,
             Contains("1 of 2 ranks did not come within 1.5 s: rank 1 (known so far: rank 0)") &&
                 Contains("rank 1 did not complete this start-up or an earlier one: " +
                          why_of(1).message));
}

TEST_CASE("no rank's word takes the place of another process's address", "[control]") {
  CountingStore store;
  const auto members = join_all(2, store);
  Control::decline(store, 1, kHost, now_with_skips(), why_of(1));
  CHECK(control::decode_key(store.get(control::key_of(1), 5000ms)));
}

}  // namespace ccoll::testing
