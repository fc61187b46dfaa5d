// SPDX-License-Identifier: Apache-2.0
// Ranks that are silent for a while because their service thread does not run. A loss takes the
// limit of real time, because timers and the others' beats do; connections/heartbeat_watch_test has
// the rest. (For stopped processes see tests/comm/failures/processes/silent_test.)
#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <latch>

#include "harness.hpp"
#include "support/real_time.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kRanks = 7;
constexpr std::uint64_t kCommunicator = 5;
constexpr milliseconds kLimit = 1500ms;

/// Ranks with a service thread each.
class Job {
 public:
  Job() {
    for (std::uint32_t rank = 0; rank < kRanks; rank++)
      members_.push_back(
          make_member(rank, kRanks, 60s, job_token(), net::Service::dedicated(), kLimit));
    std::vector<std::thread> threads;
    for (Member& member : members_)
      threads.emplace_back([&] { member.joined = member.control->join(store_); });
    for (std::thread& thread : threads) thread.join();
    for (Member& member : members_) {
      REQUIRE(member.joined);
      ears_.push_back(std::make_shared<Recorder>());
      member.control->subscribe(kCommunicator, ears_.back());
    }
  }
  ~Job() { leave_all(members_); }

  /// Blocks these ranks' service threads while `meanwhile` runs.
  void hold_up(const std::vector<std::uint32_t>& ranks, const std::function<void()>& meanwhile) {
    struct Latches {
      explicit Latches(std::ptrdiff_t ranks) : held(ranks) {}
      std::latch held, go_on{1};
    };
    const auto latches = std::make_shared<Latches>(std::ssize(ranks));
    for (const std::uint32_t rank : ranks)
      asio::post(members_[rank].service->context(), [latches] {
        latches->held.count_down();
        latches->go_on.wait();
      });
    latches->held.wait();
    meanwhile();
    latches->go_on.count_down();
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

}  // namespace

TEST_CASE("heartbeat: who says nothing for the limit is lost, for everyone and for itself",
          "[control]") {
  Job job;
  constexpr std::uint32_t kSilent = 2;
  job.hold_up({kSilent}, [&] {
    for (std::uint32_t rank = 0; rank < kRanks; rank++)
      if (rank != kSilent) CHECK(job.ear(rank).wait_for(1, 0, kPatience));
  });
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

TEST_CASE("heartbeat: nobody is lost in a job that stands still as a whole", "[control]") {
  Job job;
  job.hold_up({0, 1, 2, 3, 4, 5, 6}, [] { leave_time(2 * kLimit); });
  leave_time(kLimit);  // all look at their peers many times
  CHECK(job.failures() == 0);
}

}  // namespace ccoll::testing
