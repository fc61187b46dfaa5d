// SPDX-License-Identifier: Apache-2.0
// Ranks that were told what cannot be: all hear of it at once, and who it was.
#include <catch2/catch.hpp>
#include <future>

#include "harness.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

struct Told {
  std::uint32_t rank;
  std::uint32_t size;
  Claim claim;
};

/// What each gets of its start-up, all at one store; within `kSoon`, although the limit is far.
constexpr auto kSoon = 20s;
std::vector<Status> outcomes(const std::vector<Told>& all, milliseconds apart = 0ms) {
  CountingStore store;
  std::vector<Member> members;
  for (const Told& told : all)
    members.push_back(make_member(told.rank, told.size, 120s, job_token(), net::Service::shared(),
                                  0ms, told.claim));
  const auto start = Clock::now();
  std::vector<std::future<Status>> joins;
  for (Member& member : members) {
    joins.push_back(std::async(std::launch::async, [&] { return member.control->join(store); }));
    std::this_thread::sleep_for(apart);
  }
  std::vector<Status> statuses;
  for (auto& join : joins) statuses.push_back(join.get());
  CHECK(Clock::now() - start < kSoon);
  return statuses;
}

void check_all(const std::vector<Status>& statuses, const std::vector<std::string>& words) {
  for (const Status& status : statuses) {
    REQUIRE_FALSE(status);
    CHECK(status.error().kind == ErrorKind::mismatch);
    CHECK_THAT(status.error().message, Catch::StartsWith("start-up: "));
    for (const auto& word : words) CHECK_THAT(status.error().message, Catch::Contains(word));
  }
}

}  // namespace

TEST_CASE("two processes that claim one rank are told to everyone, at once", "[control]") {
  const auto apart = GENERATE(0ms, 100ms);
  for (const std::uint32_t twice : {1u, 2u, 3u}) {
    CAPTURE(twice, apart.count());
    // Rank 4 does not come: the start-up is still open, whatever the others do.
    std::vector<Told> all = {{twice, 5, {99, 999}}};
    for (std::uint32_t rank = 0; rank < 4; rank++) all.push_back({rank, 5, {rank + 1, 100 + rank}});
    const auto first = "host 127.0.0.1, pid 999";
    const auto second = "host 127.0.0.1, pid " + std::to_string(100 + twice);
    check_all(outcomes(all, apart),
              {"two processes have been told that they are rank " + std::to_string(twice) + ": ",
               first, second});
  }
}

TEST_CASE("two processes that claim rank 0 are told to both, at once", "[control]") {
  for (int round = 0; round < 5; round++)
    check_all(outcomes({{0, 2, {1, 101}}, {0, 2, {2, 102}}}, 100ms),
              {"two processes have been told that they are rank 0: ", "host 127.0.0.1, pid 101",
               "host 127.0.0.1, pid 102"});
}

}  // namespace ccoll::testing
