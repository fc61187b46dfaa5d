// SPDX-License-Identifier: Apache-2.0
// How a team's ranks meet, over a device that only records its requests.
#include "gpu/team/meeting.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <latch>
#include <random>
#include <thread>

#include "support/effort.hpp"

using namespace ccoll;
using namespace ccoll::device;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// A deadline late enough for everything expected.
TeamMeeting::TimePoint in_time() { return steady_clock::now() + std::chrono::seconds(60); }

const LoadedProgram* program(std::uintptr_t number) {
  return reinterpret_cast<const LoadedProgram*>(number * 64);
}

/// Models a stream as a list: for each position, the launch before it.
class Device final : public TeamDevice {
 public:
  explicit Device(std::uint32_t ranks) : arrived_(ranks, 0), left_(ranks, 0) {}

  Status arrive(TeamCall& call) override {
    call.capture = call.stream == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(call.stream);
    if (call.rank == fails_to_arrive) return fail(ErrorKind::internal, "no event");
    // The rank has left all earlier launches, so no rank is one ahead.
    wrong += left_[call.rank] != launches_.load() ? 1 : 0;
    ++arrived_[call.rank];
    return {};
  }
  Status launch(std::span<const TeamCall> calls, std::uint32_t last) override {
    lasts.push_back(last);
    if (launch_fails) return fail(ErrorKind::internal, "no launch");
    for (std::uint32_t rank = 0; rank < calls.size(); ++rank) {
      wrong += calls[rank].rank != rank || arrived_[rank] != launches_.load() + 1 ? 1 : 0;
    }
    if (holds_up != nullptr) {
      launching.count_down();
      holds_up->wait();
    }
    ++launches_;
    return {};
  }
  Status leave(const TeamCall& call) override {
    wrong += launches_.load() != left_[call.rank] + 1 ? 1 : 0;
    ++left_[call.rank];
    return {};
  }
  void abort() override { ++aborts; }

  int launches() const { return launches_; }
  int left(std::uint32_t rank) const { return left_[rank]; }

  std::uint32_t fails_to_arrive = UINT32_MAX;
  bool launch_fails = false;
  std::latch* holds_up = nullptr;
  std::latch launching{1};
  std::vector<std::uint32_t> lasts;
  std::atomic<int> wrong{0};
  std::atomic<int> aborts{0};

 private:
  std::atomic<int> launches_{0};
  std::vector<int> arrived_, left_;  // by rank, and used by that rank's thread except in launches
};

TeamCall call_of(std::uint32_t rank) {
  TeamCall call;
  call.rank = rank;
  call.program = program(1);
  return call;
}

}  // namespace

TEST_CASE("meeting: the last to come launches for all, and each leaves each launch once",
          "[engine][device][stress]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  constexpr std::uint32_t kRanks = 4;
  const int calls = testing::by_effort(200, 1'000, 20'000);
  Device device(kRanks);
  TeamMeeting meeting(kRanks, device);
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        std::mt19937 random(seed + rank);
        for (int i = 0; i < calls; ++i) {
          if (random() % 8 == 0) std::this_thread::yield();
          failed += meeting.arrive(call_of(rank)) ? 0 : 1;
          failed += meeting.leave(rank, in_time()) ? 0 : 1;
        }
      });
    }
  }
  CHECK(failed == 0);
  CHECK(device.wrong == 0);
  CHECK(device.launches() == calls);
  CHECK(device.aborts == 0);
}

TEST_CASE("meeting: one thread comes with all ranks and then leaves with each",
          "[engine][device]") {
  Device device(3);
  TeamMeeting meeting(3, device);
  for (int call = 1; call <= 3; ++call) {
    for (const std::uint32_t rank : {2U, 0U, 1U}) REQUIRE(meeting.arrive(call_of(rank)));
    CHECK(device.launches() == call);
    for (const std::uint32_t rank : {0U, 1U, 2U}) REQUIRE(meeting.leave(rank, in_time()));
  }
  CHECK(device.lasts == std::vector<std::uint32_t>{1, 1, 1});
  CHECK(device.wrong == 0);
}

TEST_CASE("meeting: who waits in vain says for whom, and that ends everything",
          "[engine][device]") {
  Device device(4);
  TeamMeeting meeting(4, device);
  REQUIRE(meeting.arrive(call_of(0)));
  REQUIRE(meeting.arrive(call_of(2)));
  auto other = std::async(std::launch::async, [&] { return meeting.leave(2, in_time()); });
  const auto late = meeting.leave(0, steady_clock::now() + milliseconds(20));
  REQUIRE_FALSE(late);
  CHECK(late.error().kind == ErrorKind::timed_out);
  CHECK(late.error().message == "rank 0 of a team waited in vain for ranks 1, 3 to make the call");
  CHECK(late.error().culprit == 1);
  // A rank with a longer limit and one that comes later get the same cause.
  CHECK(other.get().error() == late.error());
  CHECK(meeting.arrive(call_of(1)).error() == late.error());
  CHECK(meeting.leave(1, in_time()).error() == late.error());
  CHECK(meeting.broken() == late.error());
  CHECK(device.aborts == 1);
  CHECK(device.launches() == 0);
}

TEST_CASE("meeting: a deadline passes also while the launch itself is held up",
          "[engine][device]") {
  Device device(2);
  TeamMeeting meeting(2, device);
  std::latch held(1);
  device.holds_up = &held;
  REQUIRE(meeting.arrive(call_of(0)));
  auto last = std::async(std::launch::async, [&] { return meeting.arrive(call_of(1)); });
  device.launching.wait();
  const auto late = meeting.leave(0, steady_clock::now() + milliseconds(20));
  held.count_down();
  REQUIRE_FALSE(late);
  CHECK(late.error().message.find("may still be written") != std::string::npos);
  CHECK(last.get().error() == late.error());
  CHECK(device.aborts == 1);
}

TEST_CASE("meeting: calls that do not fit together are refused for all", "[engine][device]") {
  for (const bool of_programs : {true, false}) {
    Device device(3);
    TeamMeeting meeting(3, device);
    TeamCall odd = call_of(1);
    if (of_programs) odd.program = program(2);
    if (!of_programs) odd.stream = reinterpret_cast<CUstream_st*>(64);
    REQUIRE(meeting.arrive(call_of(0)));
    REQUIRE(meeting.arrive(odd));
    const auto refused = meeting.arrive(call_of(2));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::mismatch);
    CHECK(refused.error().message.find("ranks 0 and 1 of a team") != std::string::npos);
    CHECK(meeting.leave(0, in_time()).error() == refused.error());
    CHECK(device.launches() == 0);
    // Earlier launches may end well.
    CHECK(device.aborts == 0);
    meeting.abort({ErrorKind::aborted, "enough", std::nullopt});
    CHECK(device.aborts == 1);
    CHECK(meeting.broken() == refused.error());
  }
}

TEST_CASE("meeting: ranks that are captured apart are told, and may go on otherwise",
          "[engine][device]") {
  Device device(2);
  TeamMeeting meeting(2, device);
  for (int call = 0; call < 2; ++call) {
    for (const std::uint32_t rank : {0U, 1U}) {
      TeamCall captured = call_of(rank);
      captured.stream = reinterpret_cast<CUstream_st*>(64 * (rank + 1));
      REQUIRE(meeting.arrive(captured));
      if (rank == 0) CHECK(meeting.enter(0, steady_clock::now()) == Entry::waiting);
    }
    for (const std::uint32_t rank : {0U, 1U}) CHECK(meeting.enter(rank, in_time()) == Entry::apart);
  }
  CHECK(device.launches() == 0);
  CHECK_FALSE(meeting.broken());
}

TEST_CASE("meeting: who cannot go another way is refused where ranks are captured apart",
          "[engine][device]") {
  Device device(2);
  TeamMeeting meeting(2, device);
  for (const std::uint32_t rank : {0U, 1U}) {
    TeamCall captured = call_of(rank);
    captured.stream = reinterpret_cast<CUstream_st*>(64 * (rank + 1));
    REQUIRE(meeting.arrive(captured));
  }
  const auto refused = meeting.leave(0, in_time());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("different graphs") != std::string::npos);
  CHECK(meeting.leave(1, in_time()).error() == refused.error());
}

TEST_CASE("meeting: what the device refuses is every rank's failure", "[engine][device]") {
  for (const bool at_launch : {true, false}) {
    Device device(2);
    TeamMeeting meeting(2, device);
    device.launch_fails = at_launch;
    if (!at_launch) device.fails_to_arrive = 1;
    REQUIRE(meeting.arrive(call_of(0)));
    const auto failed = meeting.arrive(call_of(1));
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message == (at_launch ? "no launch" : "no event"));
    CHECK(meeting.leave(0, in_time()).error() == failed.error());
    CHECK(meeting.leave(1, in_time()).error() == failed.error());
  }
}

TEST_CASE("meeting: wrong calls are refused and break nothing", "[engine][device]") {
  Device device(2);
  TeamMeeting meeting(2, device);
  CHECK(meeting.arrive(call_of(2)).error().kind == ErrorKind::invalid_argument);
  CHECK(meeting.leave(2, in_time()).error().kind == ErrorKind::invalid_argument);
  CHECK(meeting.leave(0, in_time()).error().kind == ErrorKind::invalid_argument);
  REQUIRE(meeting.arrive(call_of(0)));
  CHECK(meeting.arrive(call_of(0)).error().kind == ErrorKind::invalid_argument);
  REQUIRE(meeting.arrive(call_of(1)));
  CHECK(meeting.arrive(call_of(0)).error().kind == ErrorKind::invalid_argument);
  CHECK(meeting.leave(0, in_time()));
  CHECK(meeting.leave(1, in_time()));
  CHECK_FALSE(meeting.broken());
  CHECK(device.launches() == 1);
}

TEST_CASE("meeting: an abort ends who waits, with its reason", "[engine][device]") {
  Device device(2);
  TeamMeeting meeting(2, device);
  REQUIRE(meeting.arrive(call_of(0)));
  auto waits = std::async(std::launch::async, [&] { return meeting.leave(0, in_time()); });
  const Failure why{ErrorKind::peer_lost, "rank 7 is lost", 7};
  meeting.abort(why);
  meeting.abort({ErrorKind::aborted, "too late to be the cause", std::nullopt});
  CHECK(waits.get().error() == why);
  CHECK(device.aborts == 1);
}

TEST_CASE("meeting: a launch that is under way when all is over is left before the cause is told",
          "[engine][device]") {
  Device device(2);
  TeamMeeting meeting(2, device);
  std::latch held(1);
  device.holds_up = &held;
  REQUIRE(meeting.arrive(call_of(0)));
  auto waits = std::async(std::launch::async, [&] { return meeting.enter(0, in_time()); });
  auto last = std::async(std::launch::async, [&] { return meeting.arrive(call_of(1)); });
  device.launching.wait();
  const Failure why{ErrorKind::aborted, "enough", std::nullopt};
  meeting.abort(why);
  CHECK(device.aborts == 1);
  CHECK(waits.wait_for(milliseconds(50)) == std::future_status::timeout);
  held.count_down();
  CHECK(waits.get().error() == why);
  CHECK(last.get().error() == why);
  CHECK(device.left(0) == 1);
  CHECK(meeting.enter(1, in_time()).error() == why);
  CHECK(device.left(1) == 1);
  CHECK(device.wrong == 0);
}

TEST_CASE("meeting: it tells whether what was launched may not be whole", "[engine][device]") {
  for (const bool differs : {true, false}) {
    Device device(2);
    TeamMeeting meeting(2, device);
    for (const std::uint32_t rank : {0U, 1U}) REQUIRE(meeting.arrive(call_of(rank)));
    for (const std::uint32_t rank : {0U, 1U}) REQUIRE(meeting.leave(rank, in_time()));
    CHECK_FALSE(meeting.ended());
    TeamCall next = call_of(1);
    if (differs) next.program = program(2);
    device.launch_fails = !differs;
    REQUIRE(meeting.arrive(call_of(0)));
    const auto refused = meeting.arrive(next);
    REQUIRE_FALSE(refused);
    CHECK(meeting.ended() == (differs ? std::nullopt : std::optional(refused.error())));
  }
}
