// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/waits.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "comm/parts.hpp"
#include "comm/parts_of_job.hpp"
#include "support/logged.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ccoll::testing::count_of;
using ccoll::testing::Heard;
using ccoll::testing::logged;

constexpr std::uint64_t kCommunicator = 21;

/// Rank 1 of 3, which are ranks 4, 5 and 7 of the job.
struct WaitingRank : Parts {
  explicit WaitingRank(const CommunicatorOptions& options = {})
      : Parts(1, {4, 5, 7}, kCommunicator, options) {}
};

CommunicatorOptions soon_told() {
  CommunicatorOptions options;
  options.name = "team";
  options.timeout = kNoLimit;
  options.warn_after = 400ms;
  return options;
}

}  // namespace

TEST_CASE("waits: control hears of ranks that this one waits for, until something moves",
          "[comm][unit]") {
  WaitingRank rank;
  rank.begin_recv(0);
  rank.begin_recv(2);
  {
    const Owner owned(rank.progress);
    CHECK_FALSE(rank.waits.are_reported(owned));
    rank.waits.report(owned);
    CHECK(rank.waits.are_reported(owned));
  }
  REQUIRE(rank.control->waits.size() == 2);
  CHECK(rank.control->waits[0].ranks == std::vector<std::uint32_t>{4});
  CHECK(rank.control->waits[1].ranks == std::vector<std::uint32_t>{7});
  CHECK_THAT(rank.control->waits[1].text, Contains("a receive of communicator"));
  CHECK(rank.control->waits[0].sequence != rank.control->waits[1].sequence);
  const Owner owned(rank.progress);
  rank.waits.take_back(owned);
  CHECK(rank.control->waits.empty());
}

TEST_CASE("waits: a rank that asks is told where this one stands in that call", "[comm][unit]") {
  WaitingRank rank;
  std::vector<float> values(8);
  rank.begin_sum(values);
  rank.round();
  {
    const Owner owned(rank.progress);
    rank.waits.report(owned);
  }
  pass(3s);
  rank.waits.answer(7, 0, now_shown());
  const auto& told = rank.control->published.back();
  CHECK(told.to == std::vector<std::uint32_t>{7});
  CHECK(told.waiting.signature.kind == kTellsStand);
  CHECK_THAT(told.waiting.note, Contains("waiting for rank"));
}

TEST_CASE("waits: a cycle is sought once, in the last quarter of a call's time", "[comm][unit]") {
  WaitingRank rank;
  const auto operation = rank.begin_recv(0, 1s);
  const auto seek = [&] {
    const Owner owned(rank.progress);
    auto next = Clock::time_point::max();
    const bool sought = rank.waits.seek_cycle(owned, *operation, 9, now_shown(), next);
    CHECK((sought || operation->watch(owned).sought || next == operation->deadline - 250ms));
    return sought;
  };
  CHECK_FALSE(seek());
  pass(749ms);
  CHECK_FALSE(seek());
  pass(1ms);
  CHECK(seek());
  CHECK_FALSE(seek());
  CHECK(rank.control->sought == std::vector<std::uint64_t>{9});
  CHECK(rank.waits.cycle_of(9).empty());
  rank.waits.stands().note_cycle(9, "rank 4 waits for rank 5");
  CHECK_THAT(rank.waits.cycle_of(9), Contains("(by ranks of the job): rank 4 waits for rank 5"));
}

TEST_CASE("waits: a long wait asks the others, then reports, each once", "[comm][unit]") {
  CommunicatorOptions options;
  options.warn_after = 1s;
  WaitingRank rank(options);
  const auto operation = rank.begin_recv(0, 60s);
  const auto stage = [&] {
    const Owner owned(rank.progress);
    auto next = Clock::time_point::max();
    return rank.waits.long_wait(owned, *operation, now_shown(), next);
  };
  CHECK(stage() == LongWait::no);
  pass(750ms);
  CHECK(stage() == LongWait::asked);
  CHECK(stage() == LongWait::no);
  pass(250ms);
  CHECK(stage() == LongWait::logged);
  pass(1h);
  CHECK(stage() == LongWait::no);
}

TEST_CASE("waits: a message's is told of once, with whom it misses and what its sender does",
          "[comm][unit]") {
  PartsOfJob job({0, 1, 2}, 210, soon_told());
  const auto text = logged([&](const Heard& log) {
    job[0].begin_recv(1)->label = "weights";
    job.spend(399ms);
    CHECK(log.count("has waited for") == 0);
    job.spend(2s);  // long enough for a second time
  });
  CAPTURE(text);
  CHECK(count_of("has waited for", text) == 1);
  CHECK_THAT(text, Contains("\"weights\": team: recv from rank 1 tag 7") &&
                       Contains("has waited for 0.4 s") && Contains("it waits for rank 1 (") &&
                       Contains("rank 1 had made no collective call"));
}

TEST_CASE("waits: of many messages few are told of, the rest counted", "[comm][unit]") {
  WaitingRank rank(soon_told());
  const auto text = logged([&] {
    for (int i = 0; i < 20; i++) rank.begin_recv(0);
    rank.look_for(1s);
  });
  CAPTURE(text);
  CHECK(count_of("recv from rank 0", text) == 4);
  CHECK_THAT(text, Contains("16 more messages have waited as long"));
}

TEST_CASE("waits: what moves is told of once it has stood still for long", "[comm][unit]") {
  PartsOfJob job({0, 1, 2, 3}, 211, soon_told());
  std::vector<float> first(8), second(8);
  const auto sum_of = [](std::vector<float>& values) {
    auto call = Parts::sum_of(values);
    call.algorithm = Algorithm::recursive_doubling;
    return call;
  };
  const auto text = logged([&](const Heard& log) {
    job[0].begin(sum_of(first));
    job.spend(390ms);
    job[1].begin(sum_of(second));  // its data let rank 0 take its first step
    job.spend(390ms);
    CHECK(log.count("has waited for") == 0);
    job.spend(20ms);
  });
  CAPTURE(text);
  CHECK(count_of("has waited for", text) == 2);
}

TEST_CASE("waits: no long wait is reported where that is not asked for", "[comm][unit]") {
  CommunicatorOptions options;
  options.warn_after = 0ms;
  WaitingRank rank(options);
  const auto operation = rank.begin_recv(0, 60s);
  pass(24h);
  const Owner owned(rank.progress);
  auto next = Clock::time_point::max();
  CHECK(rank.waits.long_wait(owned, *operation, now_shown(), next) == LongWait::no);
  CHECK(next == Clock::time_point::max());
}

TEST_CASE("waits: of many ranks some are asked at a time whether they have left, and all in turn",
          "[comm][unit]") {
  constexpr std::uint32_t kRanks = 100;
  std::vector<std::uint32_t> group(kRanks);
  std::iota(group.begin(), group.end(), 1000u);
  Parts rank(0, group, kCommunicator);
  std::vector<Rank> others;
  for (Rank other = kRanks - 1; other > 0; other--) others.insert(others.end(), 2, other);
  std::set<std::uint32_t> asked;
  int times = 0;
  while (asked.size() < kRanks - 1 && times++ < 10) {
    const Owner owned(rank.progress);
    CHECK(rank.waits.messages_ask_again(owned, now_shown()));
    rank.waits.ask_for_messages(owned, others, now_shown());
    CHECK_FALSE(rank.waits.messages_ask_again(owned, now_shown()));
    const auto& [waiting, to] = rank.control->published.back();
    CHECK((waiting.signature.kind == kAsksClosed && waiting.communicator == kCommunicator));
    CHECK(to.size() <= 32);
    asked.insert(to.begin(), to.end());
    pass(1s);
  }
  CHECK(times == 4);
  CHECK((asked.size() == kRanks - 1 && *asked.begin() == 1001 && *asked.rbegin() == 1099));
}

TEST_CASE("waits: ranks are looked for again once a second", "[comm][unit]") {
  WaitingRank rank;
  const auto again = [&] {
    const Owner owned(rank.progress);
    return rank.waits.looks_again(owned, now_shown());
  };
  CHECK(again());
  pass(999ms);
  CHECK_FALSE(again());
  pass(1ms);
  CHECK(again());
  rank.waits.look_for({});
  CHECK(rank.control->probes.empty());
  rank.waits.look_for({0, 2});
  CHECK(rank.control->probes.back() == std::vector<std::uint32_t>{4, 7});
}

}  // namespace ccoll::test
