// SPDX-License-Identifier: Apache-2.0
// Ranks that are silent for a while because their service thread does not run. (For stopped
// processes see tests/comm/failures/processes/silent_test.)
#include <algorithm>
#include <asio/post.hpp>
#include <catch2/catch.hpp>

#include "harness.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kRanks = 7;
constexpr std::uint64_t kCommunicator = 5;
constexpr milliseconds kLimit = 1500ms;

/// Ranks with a service thread each.
class Job {
 public:
  /// The heartbeat limits, by rank.
  explicit Job(const std::vector<milliseconds>& limits) {
    for (std::uint32_t rank = 0; rank < limits.size(); rank++)
      members_.push_back(make_member(rank, static_cast<std::uint32_t>(limits.size()), 60s,
                                     job_token(), net::Service::dedicated(), limits[rank]));
    std::vector<std::thread> threads;
    for (Member& member : members_)
      threads.emplace_back([&] { member.joined = member.control->join(store_); });
    for (std::thread& thread : threads) thread.join();
    for (Member& member : members_) {
      ears_.push_back(std::make_shared<Recorder>());
      member.control->subscribe(kCommunicator, ears_.back());
    }
  }
  ~Job() { leave_all(members_); }

  bool joined() const {
    return std::ranges::all_of(members_,
                               [](const Member& each) { return each.joined.has_value(); });
  }
  /// Blocks these ranks' service threads for that time; returns afterwards.
  void hold_up(const std::vector<std::uint32_t>& ranks, milliseconds time) {
    for (const std::uint32_t rank : ranks)
      asio::post(members_[rank].service->context(), [time] { std::this_thread::sleep_for(time); });
    std::this_thread::sleep_for(time);
  }
  Recorder& ear(std::uint32_t rank) { return *ears_[rank]; }
  std::size_t failures() const {
    std::size_t count = 0;
    for (const auto& ear : ears_) count += ear->failures().size();
    return count;
  }

 private:
  CountingStore store_;
  std::vector<Member> members_;
  std::vector<std::shared_ptr<Recorder>> ears_;
};

std::vector<std::uint32_t> everyone() { return {0, 1, 2, 3, 4, 5, 6}; }

}  // namespace

TEST_CASE("heartbeat: who says nothing for the limit is lost, for everyone and for itself",
          "[control]") {
  Job job(std::vector(kRanks, kLimit));
  REQUIRE(job.joined());
  constexpr std::uint32_t kSilent = 2;
  job.hold_up({kSilent}, 3 * kLimit);
  for (std::uint32_t rank = 0; rank < kRanks; rank++) {
    CAPTURE(rank);
    REQUIRE(job.ear(rank).wait_for(1, 0, 20s));
    const auto failure = job.ear(rank).failures().front();
    CHECK(failure.kind == ErrorKind::peer_lost);
    CHECK(failure.culprit == kSilent);
    CHECK_THAT(failure.message, Catch::Contains("nothing has come from it for ") &&
                                    Catch::Contains("(the heartbeat's limit is 1.5 s)"));
    CHECK((failure.message.find("count this one as lost") != std::string::npos) ==
          (rank == kSilent));
  }
  CHECK(job.failures() == kRanks);
}

TEST_CASE("heartbeat: nobody is lost in a job that has nothing to say, or stands still as a whole",
          "[control]") {
  Job job(std::vector(kRanks, kLimit));
  REQUIRE(job.joined());
  std::this_thread::sleep_for(2 * kLimit);
  job.hold_up(everyone(), 2 * kLimit);
  std::this_thread::sleep_for(kLimit);
  CHECK(job.failures() == 0);
}

TEST_CASE("heartbeat: ranks without a limit speak to those that have one, and lose nobody",
          "[control]") {
  std::vector<milliseconds> limits(kRanks, 0ms);
  limits[0] = kLimit;
  Job job(limits);
  REQUIRE(job.joined());
  std::this_thread::sleep_for(2 * kLimit);
  job.hold_up({4}, 2 * kLimit);  // no peer of rank 0's
  CHECK(job.failures() == 0);
  job.hold_up({1}, 2 * kLimit);
  REQUIRE(job.ear(6).wait_for(1, 0, 20s));
  CHECK(job.ear(6).failures().front().culprit == 1);
}

}  // namespace ccoll::testing
