// SPDX-License-Identifier: Apache-2.0
// The remaining ranks stay connected, whichever ranks leave, in any order and at any moment.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <random>

#include "harness.hpp"
#include "support/effort.hpp"
#include "support/real_time.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

/// The members of a job that have not left, each with its recorder.
class ShrinkingJob {
 public:
  explicit ShrinkingJob(std::uint32_t size) : members_(join_all(size, store_)), staying_(size) {
    std::iota(staying_.begin(), staying_.end(), 0u);
    for (Member& member : members_) {
      recorders_.push_back(std::make_shared<Recorder>());
      member.control->subscribe(kCommunicator, recorders_.back());
      opened_at_first_ += member.control->statistics().opened;
    }
  }

  bool joined() const {
    return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined; });
  }
  const std::vector<std::uint32_t>& staying() const { return staying_; }
  std::size_t departed() const { return members_.size() - staying_.size(); }
  std::vector<std::uint32_t> gone() const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < members_.size(); rank++)
      if (std::ranges::find(staying_, rank) == staying_.end()) ranks.push_back(rank);
    return ranks;
  }

  /// The leaving rank closes its listener, too: the kernel refuses later calls, not a message.
  void leave(const std::vector<std::uint32_t>& ranks, bool together) {
    for (const std::uint32_t rank : ranks) std::erase(staying_, rank);
    std::vector<std::thread> threads;
    for (const std::uint32_t rank : ranks) {
      threads.emplace_back([&member = members_[rank], rank] {
        member.control->leave();
        if (rank % 2 == 0) member.listener.reset();
      });
      if (!together) threads.back().join();
    }
    if (together)
      for (std::thread& thread : threads) thread.join();
  }

  /// One remaining rank publishes something; returns the remaining ranks that do not hear it.
  std::vector<std::uint32_t> deaf_to(std::uint32_t speaker) {
    ++communicators_;
    std::vector<std::shared_ptr<Recorder>> ears;
    for (const std::uint32_t rank : staying_) {
      ears.push_back(std::make_shared<Recorder>());
      members_[rank].control->subscribe(kCommunicator + communicators_, ears.back());
    }
    members_[speaker].control->flood(kCommunicator + communicators_,
                                     {ErrorKind::timed_out, "still here", {}});
    std::vector<std::uint32_t> deaf;
    for (std::size_t i = 0; i < ears.size(); ++i)
      if (!ears[i]->wait_for(1, 0, 5s)) deaf.push_back(staying_[i]);
    return deaf;
  }

  /// Whether all remaining ranks have heard of all departures. A goodbye that only leaving ranks
  /// have read is lost; then ranks probe, as if they waited for such a rank.
  bool all_heard() {
    for (const std::uint32_t rank : staying_) {
      const auto heard = recorders_[rank]->wait_for(0, departed(), 1s);
      if (!heard) members_[rank].control->probe(gone());
    }
    return std::all_of(staying_.begin(), staying_.end(), [&](std::uint32_t rank) {
      return recorders_[rank]->wait_for(0, departed(), 10s) &&
             recorders_[rank]->departures().size() == departed();
    });
  }
  void ask_for_all() {
    for (const Member& member : members_) member.control->probe(staying_);
  }
  /// Failures that no rank published.
  std::size_t false_alarms() {
    std::size_t count = 0;
    for (const auto& recorder : recorders_) count += recorder->failures().size();
    return count;
  }
  std::uint64_t opened() const {
    std::uint64_t count = 0;
    for (const Member& member : members_) count += member.control->statistics().opened;
    return count - opened_at_first_;
  }

 private:
  static constexpr std::uint64_t kCommunicator = 1;
  CountingStore store_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> staying_;
  std::vector<std::shared_ptr<Recorder>> recorders_;
  std::uint64_t opened_at_first_ = 0;
  std::uint64_t communicators_ = 0;
};

/// New connections per departure: one by the remaining rank below, and one by a rank that leaves
/// with news before it finds its next. (Calls to ranks that have just left fail.)
constexpr std::size_t kMostCalls = 2;

int rounds() { return testing::reduced() ? 2 : 5; }

}  // namespace

TEST_CASE("a rank all of whose neighbours have left still hears the news", "[control]") {
  ShrinkingJob job(8);
  REQUIRE(job.joined());
  job.leave({2, 4, 6}, false);
  for (const std::uint32_t speaker : job.staying()) {
    CAPTURE(speaker);
    CHECK(job.deaf_to(speaker).empty());
  }
  CHECK(job.all_heard());
  CHECK(job.false_alarms() == 0);
}

TEST_CASE("asking for ranks that are there does no harm", "[control]") {
  ShrinkingJob job(6);
  REQUIRE(job.joined());
  job.ask_for_all();
  leave_time(1500ms);  // the timer for a rank that nobody heard from would end after 1 s
  CHECK(job.all_heard());
  CHECK(job.false_alarms() == 0);
  CHECK(job.deaf_to(0).empty());
}

TEST_CASE("ranks leave one after the other: the others stay connected, for a few calls each",
          "[control]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(); ++round) {
    const std::uint32_t size = 2 + random() % 63;
    ShrinkingJob job(size);
    CAPTURE(seed, round, size);
    REQUIRE(job.joined());
    while (job.staying().size() > 1) {
      auto going = job.staying();
      std::shuffle(going.begin(), going.end(), random);
      going.resize(1 + random() % (going.size() - 1));
      job.leave(going, false);
      CAPTURE(going, job.staying());
      CHECK(job.deaf_to(job.staying()[random() % job.staying().size()]).empty());
      CHECK(job.all_heard());
    }
    CHECK(job.false_alarms() == 0);
    CHECK(job.opened() <= kMostCalls * job.departed());
  }
}

TEST_CASE("ranks leave at the same moment: the others find each other", "[control]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(); ++round) {
    const std::uint32_t size = 3 + random() % 62;
    ShrinkingJob job(size);
    CAPTURE(seed, round, size);
    REQUIRE(job.joined());
    auto going = job.staying();
    std::shuffle(going.begin(), going.end(), random);
    going.resize(size - 2 - random() % std::min(4u, size - 2));
    job.leave(going, true);
    CAPTURE(going, job.staying());
    for (const std::uint32_t speaker : job.staying()) CHECK(job.deaf_to(speaker).empty());
    CHECK(job.false_alarms() == 0);
    CHECK(job.opened() <= kMostCalls * job.departed());
  }
}

}  // namespace ccoll::testing
