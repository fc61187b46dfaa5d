// SPDX-License-Identifier: Apache-2.0
#include "control/connections/liveness_probe.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "control/one_rank.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<std::uint32_t>;

/// A rank that has joined, and asks the others.
struct AskingRank final : OneRank {
  LivenessProbe liveness_probe;
  Ranks all_lost;

  AskingRank(std::uint32_t self, std::uint32_t of, std::chrono::milliseconds heartbeat = 0ms)
      : OneRank(self, of),
        liveness_probe(heartbeat, caller, roster, stage, edges, absences, flooding, owner->tasks) {
    join();
  }
  void lost(std::uint32_t peer) override {
    all_lost.push_back(peer);
    OneRank::lost(peer);
  }
  /// The ranks that have been asked, each as often as it was.
  Ranks asked() {
    Ranks asked;
    for (auto& [each, callee] : others)
      for (std::size_t call = 0; call < callee.calls(); call++) asked.push_back(each);
    return asked;
  }
  /// Asks a rank, which gives that answer.
  void ask(std::uint32_t each, const std::string& answer) {
    auto& callee = others.at(each);
    const auto call = callee.calls();
    liveness_probe.probe({each});
    REQUIRE(until([&] { return callee.calls() > call && !callee.heard(call).empty(); }));
    callee.say(call, answer);
    REQUIRE(until([&] { return callee.is_over(call); }));
    service->turn();
  }
};

}  // namespace

TEST_CASE("liveness probe: it asks those of whom it knows nothing", "[unit]") {
  AskingRank one(3, 8);
  one.connect(1);
  one.flooding.part_with(2, Flooding::kNobody);
  one.flooding.lose(4, {}, "why");
  one.absences.add(5);
  one.roster.set(3, one.others.at(0).row());  // a call to itself would show
  one.liveness_probe.probe({0, 1, 2, 3, 4, 5, 6, 8, 99});
  const Ranks expected{0, 1, 6};  // rank 1 from the start
  CHECK(one.until([&] { return one.asked() == expected; }));
  one.service->turn();
  CHECK(one.asked() == expected);
}

TEST_CASE("liveness probe: nobody is asked before a rank has joined, nor once it leaves",
          "[unit]") {
  AskingRank one(0, 3);
  const bool leaves = GENERATE(false, true);
  if (leaves)
    one.stage.leave();
  else
    one.stage = Stage();
  one.liveness_probe.probe({1, 2});
  for (int i = 0; i < 10; i++) one.service->turn();
  CHECK(one.asked().empty());
}

TEST_CASE("liveness probe: a rank is absent if nobody listens, or who does is not that rank",
          "[unit]") {
  AskingRank one(0, 9);
  one.ask(1, encode_welcome());
  one.ask(2, encode(Refusal{true, {ErrorKind::peer_lost, "it leaves", 2}}));
  one.ask(3, encode(Refusal{false, {ErrorKind::mismatch, "another job", {}}}));
  one.ask(4, encode(Refusal{false, {ErrorKind::timed_out, "not now", {}}}));
  one.ask(5, encode_beat(1));
  one.ask(6, "\1" + std::string(20, '\0'));
  one.others.at(7).stop();
  one.liveness_probe.probe({7});
  CHECK(one.until([&] { return one.absences.contains(7); }));
  for (const std::uint32_t each : {1u, 4u, 5u, 6u, 8u}) CHECK_FALSE(one.absences.contains(each));
  for (const std::uint32_t each : {2u, 3u, 7u}) CHECK(one.absences.contains(each));
  CHECK(one.all_lost.empty());
  // Asked again, they may answer otherwise; those that are absent are not asked.
  one.ask(4, encode(Refusal{true, {ErrorKind::peer_lost, "it leaves", 4}}));
  CHECK(one.absences.contains(4));
  one.liveness_probe.probe({2, 3, 7});
  one.service->turn();
  CHECK(one.asked() == Ranks{1, 2, 3, 4, 4, 5, 6});
}

TEST_CASE("liveness probe: thousands of ranks are asked a few at a time, in turn", "[unit]") {
  constexpr std::size_t kMostAtOnce = 32;
  constexpr std::uint32_t kOthers = 75;
  AskingRank one(0, kOthers + 1);
  Ranks ranks(kOthers);
  std::iota(ranks.begin(), ranks.end(), 1u);
  // A waiting rank asks again and again, and all are slow to answer.
  for (std::size_t round = 0; round < 5; round++) {
    one.liveness_probe.probe(ranks);
    std::size_t open = 0;
    const auto are_asked = [&] {
      open = 0;
      for (auto& [each, callee] : one.others)
        if (callee.calls() > 0 && !callee.is_over(callee.calls() - 1)) open++;
      return open >= kMostAtOnce;
    };
    REQUIRE(one.until(are_asked));
    one.service->turn();
    are_asked();
    CHECK(open == kMostAtOnce);
    std::size_t fewest = 100, most = 0;
    for (auto& [each, callee] : one.others) {
      fewest = std::min(fewest, callee.calls());
      most = std::max(most, callee.calls());
      const auto last = callee.calls() - 1;
      if (callee.calls() > 0 && !callee.is_over(last)) callee.say(last, encode_welcome());
    }
    const std::size_t all = (round + 1) * kMostAtOnce;
    CHECK(fewest == all / kOthers);
    CHECK(most == (all + kOthers - 1) / kOthers);
  }
}

TEST_CASE("liveness probe: a silent rank is lost if others are, and it was silent for long enough",
          "[unit]") {
  // A rank waits for an answer for half of that.
  constexpr auto kHeartbeat = 20ms;
  AskingRank one(0, 5, kHeartbeat);
  const auto ask = [&](std::chrono::milliseconds after) {
    shown += after;
    const auto calls = one.others.at(2).calls();
    one.liveness_probe.probe({2});
    REQUIRE(one.until(
        [&] { return one.others.at(2).calls() > calls && one.others.at(2).is_over(calls); }));
    one.service->turn();
    return one.all_lost;
  };
  const bool has_losses = GENERATE(false, true);
  if (has_losses) one.flooding.lose(4, {}, "why");
  const auto before = one.all_lost;
  const auto begin = Clock::now();
  CHECK(ask(0ms) == before);
  CHECK(ask(kHeartbeat / 2 - 1ms) == before);
  const auto lost = ask(1ms);
  if (has_losses) {
    CHECK(lost == Ranks{4, 2});
    CHECK_THAT(one.news.failures().back().failure.message,
               Catch::Contains("other ranks were lost, and it has not answered 3 calls"));
  } else {
    CHECK(lost.empty());
  }
  CHECK_FALSE(one.absences.contains(2));
  CHECK(Clock::now() - begin < 4s);  // without a heartbeat it takes 5 s to give up one
}

TEST_CASE("liveness probe: who has answered between was not silent", "[unit]") {
  AskingRank one(0, 5, 20ms);
  one.flooding.lose(4, {}, "why");
  auto& callee = one.others.at(2);
  for (std::size_t call = 0; call < 4; call++) {
    one.liveness_probe.probe({2});
    REQUIRE(one.until([&] { return callee.calls() > call; }));
    // The first and the last question are not answered.
    if (call == 1 || call == 2) callee.say(call, encode_welcome());
    REQUIRE(one.until([&] { return callee.is_over(call); }));
    one.service->turn();
    shown += 1s;
  }
  CHECK(one.all_lost == Ranks{4});
}

}  // namespace ccoll::control
