// SPDX-License-Identifier: Apache-2.0
// Checks that a test makes itself, in place of the timer: no case waits for them.
#include "control/connections/heartbeat_watch.hpp"

#include <catch2/catch.hpp>

#include "control/parts.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLimit = 1h;

/// Rank 1 of 6, which has joined, with connections to ranks 0 and 2.
struct WatchingRank final : Flooding::Owner {
  static constexpr std::uint32_t kSelf = 1;
  static constexpr std::uint32_t kSize = 6;

  asio::io_context context;
  const std::shared_ptr<TaskOwner> owner = std::make_shared<TaskOwner>(context);
  Wires wires{context, kSelf, kSize};
  News news{kSize};
  Flooding flooding{kSelf, kSize, news, wires.edges, owner->tasks, *this};
  Stage stage;
  HeartbeatWatch watch;
  std::vector<std::uint32_t> all_lost;

  explicit WatchingRank(std::chrono::milliseconds limit = kLimit)
      : watch(limit, stage, wires.edges, flooding, owner->tasks) {
    for (const std::uint32_t peer : {0u, 2u}) {
      wires.add(peer);
      edge(peer).start();
    }
    stage.begin(shown);
    stage.decide(true);
    watch.keep_watch();
  }
  /// Its edges read to the end.
  ~WatchingRank() {
    watch.stop();
    wires.edges.clear();
    hear();
  }

  Edge& edge(std::uint32_t peer) { return *wires.edges.find(peer); }
  void hear() {
    context.restart();
    context.poll();
  }
  /// Checks once per tenth of the limit, while `peers` speak.
  void check(int times, const std::vector<std::uint32_t>& peers) {
    for (int i = 0; i < times; i++) {
      for (const std::uint32_t peer : peers) wires.say(peer, encode_beat(0));
      hear();
      shown += kLimit / 10;
      watch.look_at_peers();
    }
  }
  void lost(std::uint32_t rank) override {
    all_lost.push_back(rank);
    wires.edges.dismiss(rank);
  }
  void job_failed(const Failure& /*failure*/) override {}
  void gone() override {}
};

using Ranks = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("heartbeat: a peer that says nothing for nine tenths of the limit is lost", "[unit]") {
  WatchingRank rank;
  rank.check(8, {0});
  CHECK(rank.all_lost == Ranks{});
  rank.check(1, {0});
  CHECK(rank.all_lost == Ranks{2});
  REQUIRE(rank.news.failures().size() == 1);
  const auto failure = rank.news.failures()[0].failure;
  CHECK(failure.culprit == 2u);
  CHECK_THAT(
      failure.message,
      Catch::Contains("nothing has come from it for 3240.0 s (the heartbeat's limit is 3600 s)"));
}

TEST_CASE("heartbeat: a word in time begins the silence anew", "[unit]") {
  WatchingRank rank;
  rank.check(8, {0});
  rank.check(1, {0, 2});
  rank.check(8, {0});
  CHECK(rank.all_lost == Ranks{});
  rank.check(1, {0});
  CHECK(rank.all_lost == Ranks{2});
  // It spoke a tenth of the limit before the check that heard it.
  CHECK_THAT(rank.news.failures().at(0).failure.message, Catch::Contains("it for 3600.0 s"));
}

TEST_CASE("heartbeat: who was away itself has lost nobody", "[unit]") {
  WatchingRank rank;
  rank.check(7, {});
  shown += 24h;
  rank.check(1, {});
  CHECK(rank.all_lost == Ranks{});
}

TEST_CASE("heartbeat: a peer hears a beat at a check if it has heard nothing since the last",
          "[unit]") {
  WatchingRank rank;
  rank.check(6, {});  // a beat is something, too
  CHECK(rank.wires.got(0) == std::vector(3, Type::beat));
  rank.wires.got(2);
  rank.wires.edges.send(rank.edge(2), encode_left(Ranks{4}));
  rank.check(1, {});
  CHECK(rank.wires.got(2) == std::vector{Type::left});
}

TEST_CASE("heartbeat: nobody is lost before a rank has joined, nor after it leaves", "[unit]") {
  WatchingRank rank;
  const bool leaves = GENERATE(false, true);
  rank.stage = Stage();
  if (leaves) rank.stage.leave();
  rank.check(20, {});
  CHECK(rank.all_lost == Ranks{});
}

TEST_CASE("heartbeat: a rank without a limit speaks to those that have one, and loses nobody",
          "[unit]") {
  WatchingRank rank(0ms);
  const auto asked = [](std::chrono::milliseconds limit) {
    return encode_beat(static_cast<std::uint32_t>(limit.count()));
  };
  const auto heard = [&](Edge& edge, const std::string& frame) {
    std::string_view rest = frame;
    const auto parsed = next_frame(rest, kMaxFrame);
    return rank.watch.beat(edge, (*parsed)->body);
  };
  REQUIRE(heard(rank.edge(0), asked(kLimit)));
  rank.check(20, {});
  CHECK(rank.all_lost == Ranks{});
  CHECK(rank.wires.got(0) == std::vector(10, Type::beat));
  CHECK(rank.edge(0).asked() == kLimit);
}

}  // namespace ccoll::control
