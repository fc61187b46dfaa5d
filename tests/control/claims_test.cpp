// SPDX-License-Identifier: Apache-2.0
// Ranks with contradictory settings: all hear of it at once, with the rank responsible.
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

constexpr auto kSoon = 20s;
/// Each rank's start-up result at one store; it comes within `kSoon`, long before the limit. Begun
/// in turn, each has asked the store for something before the next begins.
enum class Begin { at_once, in_turn };
std::vector<Status> outcomes(const std::vector<Told>& all, Begin begin = Begin::at_once) {
  CountingStore store;
  std::vector<Member> members;
  for (const Told& told : all)
    members.push_back(make_member(told.rank, told.size, 120s, job_token(), net::Service::shared(),
                                  0ms, told.claim));
  const auto start = Clock::now();
  std::vector<std::future<Status>> joins;
  for (Member& member : members) {
    const auto before = store.requests();
    joins.push_back(std::async(std::launch::async, [&] { return member.control->join(store); }));
    if (begin == Begin::in_turn) CHECK(eventually([&] { return store.requests() > before; }));
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
  const auto begin = GENERATE(Begin::at_once, Begin::in_turn);
  for (const std::uint32_t twice : {1u, 2u, 3u}) {
    CAPTURE(twice, static_cast<int>(begin));
    // Rank 4 does not come, so the start-up stays open.
    std::vector<Told> all = {{twice, 5, {99, 999}}};
    for (std::uint32_t rank = 0; rank < 4; rank++) all.push_back({rank, 5, {rank + 1, 100 + rank}});
    const auto first = "host 127.0.0.1, pid 999";
    const auto second = "host 127.0.0.1, pid " + std::to_string(100 + twice);
    check_all(outcomes(all, begin),
              {"two processes claim to be rank " + std::to_string(twice) + ": ", first, second});
  }
}

TEST_CASE("two processes that claim rank 0 are told to both, at once", "[control]") {
  for (int round = 0; round < 5; round++)
    check_all(outcomes({{0, 2, {1, 101}}, {0, 2, {2, 102}}}, Begin::in_turn),
              {"two processes claim to be rank 0: ", "host 127.0.0.1, pid 101",
               "host 127.0.0.1, pid 102"});
}

TEST_CASE("ranks of a job that were started with different sizes are told so, at once",
          "[control]") {
  check_all(outcomes({{0, 2, {1, 101, true}}, {1, 3, {2, 102, true}}}),
            {"rank 0 was started with 2 ranks, and rank 1 with 3"});
  check_all(outcomes({{0, 4, {1, 101, true}},
                      {1, 4, {2, 102, true}},
                      {2, 4, {3, 103, true}},
                      {3, 5, {4, 104, true}}}),
            {"was started with 4 ranks, and rank 3 with 5"});
}

namespace {

/// Ranks 0 and 1 of a job of two after start-up, and the errors that they hear of later.
struct Job {
  explicit Job(milliseconds limit, bool is_whole_job = true) {
    for (const std::uint32_t rank : {0u, 1u})
      members.push_back(make_member(rank, 2, limit, job_token(), net::Service::shared(), 0ms,
                                    {rank + 1, 101 + rank, is_whole_job}));
    auto other = std::async(std::launch::async, [&] { return members[1].control->join(store); });
    joined = members[0].control->join(store) && other.get();
    for (std::size_t i = 0; i < 2; i++) members[i].control->subscribe(1, recorders[i]);
  }
  /// Another process that claims to be that rank, too.
  Status claim(std::uint32_t rank, milliseconds limit, bool is_whole_job = true) {
    auto late = make_member(rank, 2, limit, job_token(), net::Service::shared(), 0ms,
                            {99, 999, is_whole_job});
    return late.control->join(store);
  }

  CountingStore store;
  std::vector<Member> members;
  std::vector<std::shared_ptr<Recorder>> recorders{std::make_shared<Recorder>(),
                                                   std::make_shared<Recorder>()};
  bool joined = false;
};

}  // namespace

TEST_CASE("a late process of a doubled rank hears so at once, and so do all if others may come yet",
          "[control]") {
  const std::uint32_t rank = GENERATE(0u, 1u);
  CAPTURE(rank);
  Job job(120s);
  REQUIRE(job.joined);
  const auto start = Clock::now();
  check_all({job.claim(rank, 120s), job.claim(rank, 120s)},
            {"two processes claim to be rank " + std::to_string(rank) + ": ", "pid 999",
             "pid " + std::to_string(101 + rank)});
  CHECK(Clock::now() - start < kSoon);
  for (const auto& recorder : job.recorders) {
    REQUIRE(recorder->wait_for(1, 0, kSoon));
    CHECK(recorder->failures()[0].kind == ErrorKind::mismatch);
    CHECK(recorder->failures()[0].culprit == rank);
  }
}

TEST_CASE("a job whose start-up is over does not end that of a larger one", "[control]") {
  Job job(120s);
  REQUIRE(job.joined);
  auto late = make_member(2, 3, 1s, job_token(), net::Service::shared(), 0ms, {99, 999, true});
  const auto status = late.control->join(job.store);
  REQUIRE_FALSE(status);
  // It has waited for its own rank 0, which was about to replace the key of the first job's.
  CHECK(status.error().kind == ErrorKind::timed_out);
}

TEST_CASE("a job whose start-up is long over is not harmed by who claims one of its ranks",
          "[control]") {
  Job job(120s);
  REQUIRE(job.joined);
  skip(121s);
  check_all({job.claim(1, 120s)}, {"two processes claim to be rank 1: "});
  for (auto& member : job.members) member.control->settle();
  for (const auto& recorder : job.recorders) CHECK(recorder->failures().empty());
}

TEST_CASE(
    "groups that a program makes at one store, one after the other, do not claim each "
    "other's ranks",
    "[control]") {
  Job job(120s, false);
  REQUIRE(job.joined);
  auto first = std::async(std::launch::async, [&] { return job.claim(0, 60s, false); });
  CHECK(job.claim(1, 60s, false));
  CHECK(first.get());
  for (const auto& recorder : job.recorders) CHECK(recorder->failures().empty());
}

TEST_CASE("of two processes that are rank 0 of a whole job one sees the other", "[control]") {
  for (int round = 0; round < 20; round++) {
    check_all(outcomes({{0, 2, {1, 101, true}}, {0, 2, {2, 102, true}}}),
              {"two processes claim to be rank 0: ", "pid 101", "pid 102"});
  }
}

}  // namespace ccoll::testing
