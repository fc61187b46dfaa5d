// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/limits.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "comm/parts.hpp"
#include "comm/parts_of_job.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using What = MessageOperation::What;

/// Rank 0 of 3, which are ranks 0 to 2 of the job.
struct LimitedRank : Parts {
  LimitedRank() : Parts(0, {0, 1, 2}, 22) {}
};

Call sum_by(Algorithm algorithm, std::vector<float>& values, std::chrono::milliseconds timeout) {
  auto call = Parts::sum_of(values, "gradients");
  call.algorithm = algorithm;
  call.timeout = timeout;
  return call;
}

/// Four ranks that have made call 0, a sum. Recursive doubling has rank 0 need rank 1, then rank 2.
/// Rank 3 needs them the other way round.
struct DoublingRanks : PartsOfJob {
  explicit DoublingRanks(std::uint64_t communicator) : PartsOfJob({0, 1, 2, 3}, communicator) {
    for (Rank rank = 0; rank < 4; rank++) begin(rank, 1min);
    settle();
  }
  std::shared_ptr<Work::State> begin(Rank rank, std::chrono::milliseconds timeout) {
    return (*this)[rank].begin(sum_by(Algorithm::recursive_doubling, values[rank], timeout));
  }

  std::array<std::vector<float>, 4> values{std::vector<float>(12), std::vector<float>(12),
                                           std::vector<float>(12), std::vector<float>(12)};
};

/// A call that needs a certain rank of the job.
enum class Needs { recv, recv_any, probe, send, barrier, broadcast, all_reduce };

bool is_message(Needs call) { return call < Needs::barrier; }

/// Begins that call, which needs rank `other`. Returns its failure, once there is one.
std::function<std::optional<Failure>()> begin_one_that(Needs needs, Parts& rank, Rank other,
                                                       std::vector<float>& values) {
  if (is_message(needs)) {
    auto operation = std::make_shared<MessageOperation>();
    if (needs == Needs::recv || needs == Needs::recv_any) operation->what = What::recv;
    if (needs == Needs::probe) operation->what = What::probe;
    if (needs != Needs::recv_any) operation->pattern.from = other;
    operation->pattern.tag = 7;
    operation->bytes = values.size() * sizeof(float);
    operation->output = reinterpret_cast<std::byte*>(values.data());
    operation->input = operation->output;
    if (needs != Needs::send) operation->received.emplace();
    const Owner owned(rank.progress);
    REQUIRE(rank.message_calls.begin(owned, std::vector{operation}, {}));
    return [operation] { return operation->failure; };
  }
  auto call = Parts::sum_of(values);
  if (needs == Needs::barrier) call.kind = Kind::barrier;
  if (needs == Needs::barrier) call.count = 1;
  if (needs == Needs::broadcast) call.kind = Kind::broadcast;
  if (needs == Needs::broadcast) call.root = other;
  return [sum = rank.begin(call)] {
    return sum->failure() != nullptr ? std::optional(*sum->failure()) : std::nullopt;
  };
}

/// Transports remember ended communicators.
std::uint64_t next_job() {
  static std::uint64_t last = 2300;
  return ++last;
}

}  // namespace

TEST_CASE("limits: a receive ends all once its time is over, and names its sender",
          "[comm][unit]") {
  LimitedRank rank;
  const auto operation = rank.begin_recv(2, 5s);
  rank.look_for(4900ms);
  CHECK_FALSE(rank.broken());
  CHECK_FALSE(operation->done);
  rank.look_for(200ms);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::timed_out);
  CHECK(rank.broken()->culprit == 2U);
  CHECK_THAT(rank.broken()->message, Contains("recv from rank 2") && Contains("timed out after 5"));
  CHECK(operation->done);
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].failure.message == rank.broken()->message);
}

TEST_CASE("limits: a probe that finds nothing ends alone", "[comm][unit]") {
  LimitedRank rank;
  const auto probe = rank.begin(What::probe, 1, 1s);
  const auto recv = rank.begin_recv(1, 60s);
  rank.look_for(1100ms);
  CHECK(probe->done);
  REQUIRE(probe->failure);
  CHECK(probe->failure->kind == ErrorKind::timed_out);
  CHECK_FALSE(recv->done);
  CHECK_FALSE(rank.broken());
}

TEST_CASE("limits: a collective that times out names the rank that it waits for", "[comm][unit]") {
  LimitedRank rank;
  std::vector<float> values(8);
  {
    auto call = Parts::sum_of(values);
    call.timeout = 2s;
    const Owner owned(rank.progress);
    REQUIRE(rank.calls.begin(owned, call));
  }
  rank.round();
  rank.look_for(1900ms);
  CHECK_FALSE(rank.broken());
  // Late calls are compared with the neighbours'.
  CHECK_FALSE(rank.control->published.empty());
  rank.look_for(200ms);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::timed_out);
  CHECK_THAT(rank.broken()->message, Contains("all_reduce of 8 float32") && Contains("waits for"));
  CHECK(rank.broken()->culprit);
}

TEST_CASE(
    "limits: one rank's ends the call on all ranks, and names whom it waited for as each numbers "
    "it",
    "[comm][unit]") {
  PartsOfJob job({7, 5, 4}, 220);
  std::vector<float> first(12), second(12);
  // In one_shot every rank waits for every other.
  const auto soon = job[0].begin(sum_by(Algorithm::one_shot, first, 300ms));
  const auto late = job[1].begin(sum_by(Algorithm::one_shot, second, 1min));
  job.spend(299ms);
  CHECK_FALSE(soon->done());
  job.spend(1ms);
  for (const auto& sum : {soon, late}) {
    REQUIRE(sum->failure());
    CHECK(sum->failure()->kind == ErrorKind::timed_out);
    CHECK(sum->failure()->culprit == 2U);
    CHECK_THAT(sum->failure()->message, Contains("on rank 0 timed out after 300 ms") &&
                                            Contains("it waits for rank 2 (in the job rank 4 "));
  }
  CHECK(job[1].broken()->culprit == 4U);
}

TEST_CASE(
    "limits: a deadline's failure names the algorithm, since when nothing moves, and who has not "
    "come",
    "[comm][unit]") {
  DoublingRanks job(221);
  const auto limited = job.begin(0, 2500ms), other = job.begin(3, 1min);
  job.spend(250ms);
  job.begin(1, 1min);  // its data let rank 0 take its first step
  job.settle();
  job.spend(2249ms);
  CHECK_FALSE(limited->done());
  job.spend(1ms);
  for (const auto& sum : {limited, other}) {
    REQUIRE(sum->failure());
    // The first look after the step was 1 ms later.
    CHECK_THAT(sum->failure()->message,
               Contains("all_reduce of 12 float32, sum, by recursive_doubling (call 1, "
                        "\"gradients\") on rank 0 timed out after 2500 ms, in step 3 of 3, window "
                        "1 of 1, for 2249 ms; it waits for rank 2 ("));
    CHECK(sum->failure()->culprit == 2U);
  }
}

TEST_CASE(
    "limits: a deadline's failure names those, too, that only later steps need, and says what they "
    "do",
    "[comm][unit]") {
  DoublingRanks job(222);
  const auto limited = job.begin(0, 800ms), other = job.begin(3, 1min);
  job.spend(800ms);
  // How long before a rank began a call is told by the true clock.
  static const std::string said =
      R"(.*in step 2 of 3, window 1 of 1, for 79\d ms; it waits for rank 1 \([^()]+\); later steps )"
      R"(need data not yet received from rank 2 \([^()]+\); asked 200 ms before: rank 1 had not )"
      R"(reached this call \(it began its last, call 0, \d+ ms before\); rank 2 had not reached )"
      R"(this call \(it began its last, call 0, \d+ ms before\))";
  for (const auto& sum : {limited, other}) {
    REQUIRE(sum->failure());
    CHECK_THAT(sum->failure()->message, Matches(said));
    CHECK(sum->failure()->culprit == 1U);
  }
}

TEST_CASE("limits: who waits for a rank that left ends when nothing of it can come any more",
          "[comm][unit]") {
  LimitedRank rank;
  rank.begin_recv(1);
  rank.news.left(2);
  rank.look_for(5s);
  CHECK_FALSE(rank.broken());
  rank.news.left(1);
  rank.look_for(500ms);
  CHECK_FALSE(rank.broken());
  rank.look_for(2s);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::peer_lost);
  CHECK(rank.broken()->culprit == 1U);
}

TEST_CASE("limits: a message that waits asks whether who never connected has left, each second",
          "[comm][unit]") {
  LimitedRank rank;
  const bool is_of_any = GENERATE(false, true);
  rank.begin_recv(is_of_any ? std::optional<Rank>() : 1);
  const auto asked = [&](std::uint32_t peer) {
    const auto published = rank.control->published;
    const auto kinds = rank.control->kinds_told(peer);
    rank.control->published = published;
    return std::ranges::count(kinds, static_cast<int>(kAsksClosed));
  };
  rank.look_for(490ms);
  CHECK(asked(1) == 0);
  rank.look_for(20ms);
  CHECK(asked(1) == 1);
  CHECK(asked(2) == (is_of_any ? 1 : 0));
  for (int second = 0; second < 3; second++) rank.look_for(1s);
  CHECK(asked(1) == 4);
  const auto answer = [&](std::uint32_t peer) {
    CHECK_FALSE(rank.news.compare(peer, {rank.self.id(), 0, {.kind = kHasClosed}}));
    rank.look_for(900ms);
    CHECK_FALSE(rank.broken());
    rank.look_for(200ms);
  };
  if (is_of_any) {
    answer(2);
    CHECK_FALSE(rank.broken());
  }
  answer(1);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::peer_lost);
  CHECK_THAT(rank.broken()->message, Contains("rank 1") && Contains("left"));
  REQUIRE(rank.control->floods.size() == 1);
}

TEST_CASE("limits: what moves beside a message does not delay its question", "[comm][unit]") {
  LimitedRank rank;
  rank.begin_recv(1);
  for (int step = 0; step < 10; step++) {
    rank.look_for(60ms);
    const Owner owned(rank.progress);
    rank.progress.move(owned);
  }
  const auto kinds = rank.control->kinds_told(1);
  CHECK(std::ranges::count(kinds, static_cast<int>(kAsksClosed)) == 1);
  CHECK(rank.control->probes.empty());
}

TEST_CASE("limits: a collective that waits asks whether who never connected has left",
          "[comm][unit]") {
  LimitedRank rank;
  std::vector<float> values(8);
  rank.begin_sum(values);
  rank.round();
  rank.look_for(900ms);
  std::vector<std::uint32_t> asked;
  const auto take_asked = [&] {
    for (const auto& [waiting, to] : std::exchange(rank.control->published, {}))
      if (waiting.signature.kind == kAsksClosed) asked = to;
  };
  take_asked();
  CHECK(asked.empty());
  rank.look_for(1s);
  take_asked();
  REQUIRE_FALSE(asked.empty());
  rank.news.compare(asked.front(), {rank.self.id(), 0, {.kind = kHasClosed}});
  rank.look_for(1100ms);
  REQUIRE(rank.broken());
  CHECK(rank.broken()->kind == ErrorKind::peer_lost);
  CHECK(rank.broken()->culprit == asked.front());
  CHECK_THAT(rank.broken()->message, Contains("which has left"));
}

TEST_CASE("limits: a collective that asks each second does not keep messages from asking",
          "[comm][unit]") {
  LimitedRank rank;
  std::vector<float> values(8);
  rank.begin_sum(values);
  rank.round();
  std::map<std::uint32_t, int> asked;
  const auto look = [&](int times) {
    asked.clear();
    for (int i = 0; i < times; i++) rank.look_for(1s);
    for (const auto& [waiting, to] : std::exchange(rank.control->published, {}))
      for (const auto peer : to) asked[peer] += waiting.signature.kind == kAsksClosed ? 1 : 0;
  };
  look(2);
  const Rank other = asked[1] > 0 ? 2 : 1;
  REQUIRE(asked[3 - other] > 0);
  const int by_collective = asked[other];
  rank.begin_recv(other);
  look(4);
  CHECK(asked[3 - other] > 0);
  CHECK(asked[other] > 2 * by_collective);
}

TEST_CASE("limits: a call that needs who has left ends soon, though no link was open",
          "[comm][unit]") {
  const Rank size = GENERATE(2U, 4U, 5U);
  const auto needs = GENERATE(Needs::recv, Needs::recv_any, Needs::probe, Needs::send,
                              Needs::barrier, Needs::broadcast, Needs::all_reduce);
  const bool waits_before = GENERATE(false, true);
  if (needs == Needs::recv_any && size > 2) return;  // it needs no certain rank
  CAPTURE(size, static_cast<int>(needs), waits_before);
  std::vector<std::uint32_t> group(size);
  std::iota(group.begin(), group.end(), 10U);
  PartsOfJob job(group, next_job());
  // In a ring of four or more, rank 0 is no neighbour of this one.
  const Rank gone = size / 2;
  if (!waits_before) job.leave(gone);
  std::vector<std::vector<float>> values(size, std::vector<float>(1 << 18));
  std::vector<std::function<std::optional<Failure>()>> failures;
  for (Rank rank = 0; rank < (is_message(needs) ? 1 : size); rank++)
    if (rank != gone) failures.push_back(begin_one_that(needs, job[rank], gone, values[rank]));
  if (waits_before) {
    job.spend(1500ms);
    for (const auto& failure : failures) CHECK_FALSE(failure());
    job.leave(gone);
  }
  job.spend(2200ms);
  for (const auto& failure : failures) {
    REQUIRE(failure());
    CHECK(failure()->kind == ErrorKind::peer_lost);
    if (needs != Needs::recv_any) CHECK(failure()->culprit == gone);
    CHECK_THAT(failure()->message, Contains("left"));
  }
}

TEST_CASE("limits: who has left ends no wait for another, and what it sent arrives",
          "[comm][unit]") {
  constexpr std::uint32_t kLate = 5, kEarly = 7;
  PartsOfJob job({0, 1, 2, 3}, next_job());
  job[2].begin(What::send, 0, {}, kEarly);
  job.leave(1);
  job.leave(2);
  const auto late = job[0].begin(What::recv, std::nullopt, {}, kLate);
  job.spend(3s);
  CHECK_FALSE(late->done);
  CHECK_FALSE(job[0].broken());
  job[3].begin(What::send, 0, {}, kLate);
  job.settle();
  CHECK(late->done);
  const auto early = job[0].begin(What::recv, 2, {}, kEarly);
  job.settle();
  CHECK(early->done);
  CHECK_FALSE(early->failure);
  const auto in_vain = job[0].begin_recv(1);
  job.spend(2200ms);
  REQUIRE(in_vain->failure);
  CHECK(in_vain->failure->kind == ErrorKind::peer_lost);
  CHECK(in_vain->failure->culprit == 1U);
}

TEST_CASE("limits: a broken link counts unless a better cause is heard in time", "[comm][unit]") {
  LimitedRank rank;
  const auto recv = rank.begin_recv(1);
  {
    const Owner owned(rank.progress);
    rank.failures.failed(owned, {ErrorKind::peer_lost, "a link broke", 1});
  }
  rank.look_for(500ms);
  CHECK_FALSE(rank.broken());
  SECTION("none is heard") {
    rank.look_for(200ms);
    REQUIRE(rank.broken());
    CHECK_THAT(rank.broken()->message, Contains("a link broke"));
  }
  SECTION("one is heard") {
    rank.news.failed(rank.self.id(), {ErrorKind::aborted, "rank 2 aborted", 2});
    rank.round();
    REQUIRE(rank.broken());
    CHECK_THAT(rank.broken()->message, Contains("rank 2 aborted"));
  }
  CHECK(recv->done);
}

}  // namespace ccoll::test
