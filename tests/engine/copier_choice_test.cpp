// SPDX-License-Identifier: Apache-2.0
#include "engine/copier_choice.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <random>
#include <vector>

namespace ccoll {
namespace {

using std::chrono::nanoseconds;

constexpr int kWindow = CopierChoice::kWindow;
constexpr int kTries = CopierChoice::kTries;

struct WayTimes {
  nanoseconds usual, other;  ///< the time of either way
};

/// A choice on a machine whose time is virtual.
class VirtualRun {
 public:
  explicit VirtualRun(WayTimes machine) : machine_(machine) {}

  void change(WayTimes machine) { machine_ = machine; }
  CopierChoice& choice() { return choice_; }
  /// How many of so many transfers went the other way. `noise` is added to a transfer's time.
  int others(
      int transfers, const std::function<nanoseconds()>& noise = [] { return nanoseconds(); }) {
    int count = 0;
    for (int i = 0; i < transfers; i++) {
      const auto transfer = choice_.begin();
      const bool is_other = transfer.copier == Copier::sender;
      count += is_other;
      trials_ += choice_.is_trying();
      if (transfer.is_timed)
        choice_.end(transfer, (is_other ? machine_.other : machine_.usual) + noise());
    }
    return count;
  }
  /// Transfers of windows that tried both ways.
  int trials() const { return trials_; }

 private:
  WayTimes machine_;
  CopierChoice choice_{Copier::receiver, Copier::sender};
  int trials_ = 0;
};

constexpr WayTimes kUsualIsBetter{nanoseconds(10'000), nanoseconds(20'000)};
constexpr WayTimes kOtherIsBetter{nanoseconds(20'000), nanoseconds(10'000)};

}  // namespace

TEST_CASE("copier choice: the first window finds the better way, and few transfers try again",
          "[engine]") {
  for (const bool is_other : {false, true}) {
    CAPTURE(is_other);
    VirtualRun run(is_other ? kOtherIsBetter : kUsualIsBetter);
    CHECK(run.others(kWindow) == kTries);
    CHECK(run.others(kWindow) == (is_other ? kWindow : 0));
    run.others(98 * kWindow);
    // Windows 0, 2, 5, 10, 20, 40 and 80.
    CHECK(run.trials() == 7 * kWindow);
    CHECK(run.choice().prefers_other() == is_other);
  }
}

TEST_CASE("copier choice: an estimate saves the first trial, and a wrong one does not last",
          "[engine]") {
  for (const bool is_right : {false, true}) {
    CAPTURE(is_right);
    VirtualRun run(is_right ? kOtherIsBetter : kUsualIsBetter);
    run.choice().estimate(true);
    CHECK(run.others(2 * kWindow) == 2 * kWindow);
    CHECK(run.trials() == 0);
    run.others(kWindow);
    CHECK(run.others(kWindow) == (is_right ? kWindow : 0));
  }
}

TEST_CASE("copier choice: 31 transfers after the way in use got slower the better one is used",
          "[engine]") {
  // The change comes at any place of a window, and of the time between two trials.
  for (int before = 3 * kWindow; before < 3 * kWindow + 2 * kWindow; before++) {
    CAPTURE(before);
    VirtualRun run(kUsualIsBetter);
    run.others(before);
    run.change({nanoseconds(30'000), nanoseconds(20'000)});
    run.others(31);
    CHECK(run.choice().prefers_other());
  }
  // The same where a trial in vain came long before.
  VirtualRun run(kUsualIsBetter);
  run.others(300 * kWindow);
  run.change({nanoseconds(15'000), nanoseconds(20'000)});
  run.others(100 * kWindow);
  CHECK_FALSE(run.choice().prefers_other());
  run.change({nanoseconds(40'000), nanoseconds(20'000)});
  run.others(3 * kWindow);
  CHECK(run.choice().prefers_other());
}

TEST_CASE("copier choice: two ways that take about as long do not alternate", "[engine]") {
  VirtualRun run({nanoseconds(10'000), nanoseconds(9'500)});
  const int others = run.others(1000 * kWindow);
  CHECK(others == run.trials() / 2);
  CHECK(run.trials() < 30 * kWindow);
}

TEST_CASE("copier choice: noise of any kind costs few trials and no better way", "[engine]") {
  std::mt19937_64 random(Catch::rngSeed());
  for (const bool is_other : {false, true}) {
    CAPTURE(is_other);
    VirtualRun run(is_other ? kOtherIsBetter : kUsualIsBetter);
    // A rank comes late for a fifth of the calls, and the times jitter by a fifth.
    const auto noise = [&] {
      const nanoseconds jitter(random() % 2'000);
      return random() % 5 == 0 ? jitter + nanoseconds(random() % 1'000'000) : jitter;
    };
    constexpr int kCalls = 2000 * kWindow;
    const int others = run.others(kCalls, noise);
    CHECK(run.trials() < kCalls / 10);
    const int best = is_other ? others : kCalls - others;
    CHECK(best > kCalls * 8 / 10);
  }
}

TEST_CASE("copier choice: ranks that count alike try alike, whatever each has found", "[engine]") {
  CopierChoice one, other;
  int tries = 0;
  for (int i = 0; i < 200 * kWindow; i++) {
    const auto a = one.begin(), b = other.begin();
    REQUIRE(one.is_trying() == other.is_trying());
    REQUIRE(a.is_timed == b.is_timed);
    if (one.is_trying()) {
      REQUIRE(a.copier == b.copier);
      tries++;
    }
    // Either finds another way to be better, and nothing changes.
    if (a.is_timed) one.end(a, nanoseconds(a.copier == Copier::receiver ? 100 : 200));
    if (b.is_timed) other.end(b, nanoseconds(b.copier == Copier::receiver ? 200 : 100));
  }
  CHECK(one.prefers_other() != other.prefers_other());
  CHECK(tries == 8 * kWindow);
}

}  // namespace ccoll
