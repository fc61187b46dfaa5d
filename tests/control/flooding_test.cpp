// SPDX-License-Identifier: Apache-2.0
// One rank's part in flooding: whom it tells, in which order, and what it says once.
#include "control/flooding.hpp"

#include <catch2/catch.hpp>

#include "control/parts.hpp"
#include "harness.hpp"

namespace ccoll::control {
namespace {

constexpr std::uint32_t kSelf = 1;
constexpr std::uint32_t kSize = 6;

/// Rank 1 of 6, with connections to ranks 0, 2 and 3.
struct FloodingRank final : Flooding::Owner {
  asio::io_context context;
  const std::shared_ptr<TaskOwner> owner = std::make_shared<TaskOwner>(context);
  Wires wires{context, kSelf, kSize};
  News news{kSize};
  Flooding flooding{kSelf, kSize, news, wires.edges, owner->tasks, *this};
  std::vector<std::string> heard;

  FloodingRank() {
    for (const std::uint32_t peer : {0u, 2u, 3u}) wires.add(peer);
  }
  void lost(std::uint32_t rank) override {
    heard.push_back(fmt::format("lost {}", rank));
    wires.edges.dismiss(rank);
  }
  void job_failed(const Failure& failure) override {
    heard.push_back("failed: " + failure.message);
  }
  void gone() override { heard.emplace_back("gone"); }

  /// The frames that ranks 0, 2 and 3 have got since the last call, once this turn is over.
  std::vector<std::vector<Type>> got() {
    context.restart();
    context.poll();
    return {wires.got(0), wires.got(2), wires.got(3)};
  }
};

using Types = std::vector<Type>;
using Each = std::vector<Types>;

FailureNews failure_of_all(std::uint32_t origin, std::uint32_t number) {
  return {origin, number, kEveryCommunicator, {ErrorKind::peer_lost, "why", origin}};
}

}  // namespace

TEST_CASE("flooding: news go on once, to all but the rank that told it", "[unit]") {
  FloodingRank rank;
  rank.flooding.spread(failure_of_all(5, 1), 2);
  CHECK(rank.got() == Each{{Type::failure}, {}, {Type::failure}});
  rank.flooding.spread(failure_of_all(5, 1), 3);
  CHECK(rank.got() == Each{{}, {}, {}});
  CHECK(rank.heard == std::vector<std::string>{"failed: why"});
}

TEST_CASE("flooding: a lost rank hears of its loss, and nothing after that", "[unit]") {
  FloodingRank rank;
  rank.flooding.lose(3, {}, "it is silent");
  CHECK(rank.got() == Each{{Type::failure}, {Type::failure}, {Type::failure}});
  REQUIRE(rank.heard.size() == 3);
  CHECK(rank.heard[0] == "lost 3");
  CHECK(rank.heard[1].ends_with(" was lost: it is silent"));
  CHECK(rank.heard[2] == "gone");
  rank.flooding.flood(7, {ErrorKind::timed_out, "late", std::nullopt});
  CHECK(rank.got() == Each{{Type::failure}, {Type::failure}, {}});
  CHECK(rank.news.has_failed(7));
}

TEST_CASE("flooding: a rank that the others count as lost loses nobody else", "[unit]") {
  FloodingRank rank;
  rank.flooding.spread(failure_of_all(kSelf, 0), 0);
  REQUIRE(rank.heard.size() == 3);
  CHECK(rank.heard[1].starts_with("failed: the other ranks count this one as lost"));
  rank.heard.clear();
  rank.flooding.lose(2, {}, "silent");
  CHECK(rank.heard.empty());
}

TEST_CASE("flooding: all read the same words of a failure, cut to what a frame holds", "[unit]") {
  FloodingRank rank;
  const auto recorder = std::make_shared<testing::Recorder>();
  rank.flooding.subscribe(7, recorder);
  rank.flooding.flood(7, {ErrorKind::mismatch, std::string(2 * kMaxText, 'x'), kSize});
  const auto failures = rank.news.failures();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].failure.message.size() == kMaxText);
  CHECK_FALSE(failures[0].failure.culprit);
  CHECK(failures[0].origin == kSelf);
}

TEST_CASE("flooding: departures heard of in one turn go on in one message", "[unit]") {
  FloodingRank rank;
  rank.flooding.part_with(4, 2);
  rank.flooding.part_with(5, 2);
  rank.flooding.part_with(5, 0);
  rank.flooding.part_with(kSelf, 0);
  CHECK(rank.heard == std::vector<std::string>{"gone", "gone"});
  CHECK(rank.got() == Each{{Type::left}, {}, {Type::left}});
  rank.flooding.say_goodbye();
  CHECK(rank.got() == Each{{Type::left}, {Type::left}, {Type::left}});
}

TEST_CASE("flooding: a new connection carries all that its peer may have missed", "[unit]") {
  FloodingRank rank;
  rank.flooding.spread(failure_of_all(5, 1), 2);
  rank.flooding.part_with(4, 2);
  Answer answer;
  answer.communicator = 9;
  answer.rank = 2;
  answer.said = 1;
  rank.flooding.hear(answer, 2);
  rank.flooding.hear(answer, 0);
  rank.got();
  rank.flooding.catch_up(*rank.wires.edges.find(2));
  CHECK(rank.got() == Each{{}, {Type::failure, Type::left, Type::answer}, {}});
}

}  // namespace ccoll::control
