// SPDX-License-Identifier: Apache-2.0
#include "control/state/admission.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {
namespace {

constexpr std::uint32_t kSelf = 1;
constexpr std::uint32_t kSize = 6;

Row row_at(std::uint32_t rank) {
  Row row;
  row.address.process = 100 + rank;
  row.address.pid = static_cast<std::int32_t>(100 + rank);
  row.nonce = 1 + rank;
  return row;
}

Hello hello_of(std::uint32_t rank) { return {rank, kSize, row_at(kSelf).nonce, row_at(rank)}; }

/// Rank 1 of 6, whose children are ranks 3 and 4.
struct Door {
  Roster roster{kSelf, kSize, row_at(kSelf), ""};
  News news{kSize};
  Stage stage;
  Admission admission;

  explicit Door(bool is_whole_job = true)
      : admission({kSelf, kSize, row_at(kSelf).nonce, is_whole_job}, roster, news, stage) {}

  void know(std::uint32_t rank) {
    roster.set(rank, row_at(rank));
    roster.met(rank);
  }
  void join() {
    for (std::uint32_t rank = 0; rank < kSize; ++rank) know(rank);
    stage.begin({});
    stage.decide(true);
  }
  std::optional<Refusal> objection(const Hello& hello) { return admission.objection(hello, false); }
};

}  // namespace

TEST_CASE("admission: in a start-up a rank lets in its children, each once", "[unit]") {
  Door door;
  door.stage.begin({});
  CHECK_FALSE(door.objection(hello_of(3)));
  door.know(3);
  const auto again = door.objection(hello_of(3));
  REQUIRE(again);
  CHECK_FALSE(again->final);
  CHECK(again->reason.message == "rank 3 has a connection already");
  CHECK(door.objection(hello_of(5))->reason.message == "rank 5 has no reason to call rank 1");
  CHECK_FALSE(door.objection(hello_of(4)));
  door.stage.leave();
  const auto late = door.objection(hello_of(4));
  REQUIRE(late);
  CHECK((late->final && late->reason.kind == ErrorKind::peer_lost));
  CHECK(door.news.learn({2, 1, kEveryCommunicator, {ErrorKind::aborted, "why", 2}}));
  CHECK(door.objection(hello_of(4))->reason.message == "why");
}

TEST_CASE("admission: a hello to another process, or of a job of another size", "[unit]") {
  Door door(GENERATE(true, false));
  door.stage.begin({});
  Hello other = hello_of(3);
  other.callee = 99;
  CHECK_FALSE(door.admission.disagrees(other));
  CHECK(door.objection(other)->reason.message ==
        "this is rank 1 of 6 of another job or of a later start");
  CHECK(door.admission.reply(other)->final);

  Hello larger = hello_of(3);
  larger.size = 7;
  CHECK(door.admission.disagrees(larger));
  const auto refusal = door.objection(larger);
  REQUIRE(refusal);
  CHECK(refusal->reason.kind == ErrorKind::mismatch);
  CHECK(refusal->reason.culprit == 3u);
  CHECK_FALSE(door.admission.reply(hello_of(3)));
}

TEST_CASE("admission: a difference in size is final only for a whole job that starts up",
          "[unit]") {
  Hello larger = hello_of(3);
  larger.size = 7;
  Door whole, part(false);
  for (Door* door : {&whole, &part}) door->stage.begin({});
  CHECK(whole.objection(larger)->final);
  CHECK_FALSE(part.objection(larger)->final);
  whole.stage.decide(true);
  CHECK_FALSE(whole.objection(larger)->final);
}

TEST_CASE("admission: two processes that claim one rank", "[unit]") {
  Door door;
  door.stage.begin({});
  door.know(3);
  Hello second = hello_of(3);
  CHECK_FALSE(door.admission.claimed_twice(second));
  second.row.address.process = 200;
  const auto claim = door.admission.claimed_twice(second);
  REQUIRE(claim);
  CHECK(claim->culprit == 3u);
  CHECK(door.objection(second)->final);
  CHECK(door.admission.reply(second)->reason == *claim);

  // The claim that made the job fail stays, whatever has happened since; other claims do not.
  CHECK(door.admission.blame(*claim));
  CHECK_FALSE(door.admission.blame({ErrorKind::mismatch, "another", 4}));
  door.know(4);
  door.stage.leave();
  CHECK(door.admission.claimed_twice(second) == claim);
  second.rank = 4;
  CHECK_FALSE(door.admission.claimed_twice(second));
}

TEST_CASE("admission: after the start-up, another process claims a rank only of a whole job",
          "[unit]") {
  const bool is_whole_job = GENERATE(true, false);
  Door door(is_whole_job);
  door.join();
  Hello second = hello_of(3);
  second.row.address.process = 200;
  CHECK(door.admission.claimed_twice(second).has_value() == is_whole_job);
  // It is one of the job's processes, with a new number.
  second.row.address.process = row_at(4).address.process;
  CHECK_FALSE(door.admission.claimed_twice(second));
  // It may be in a later start, without the rank that has gone.
  second.row.address.process = 200;
  door.news.learn_left(3);
  CHECK_FALSE(door.admission.claimed_twice(second));
}

TEST_CASE("admission: after the start-up, lower ranks without a connection are let in", "[unit]") {
  Door door;
  door.join();
  CHECK_FALSE(door.objection(hello_of(0)));
  CHECK(door.admission.objection(hello_of(0), true)->reason.kind == ErrorKind::timed_out);
  CHECK(door.objection(hello_of(2))->reason.message == "rank 2 has no reason to call rank 1");
  Hello stranger = hello_of(0);
  stranger.row.nonce = 77;
  CHECK(door.objection(stranger)->reason.kind == ErrorKind::mismatch);

  CHECK(door.news.learn({0, 0, kEveryCommunicator, {ErrorKind::peer_lost, "lost", 0}}));
  const auto lost = door.objection(hello_of(0));
  REQUIRE(lost);
  CHECK((lost->final && lost->reason.message == "lost"));
  door.stage.leave();
  CHECK(door.objection(hello_of(0))->reason.message == "rank 1 has left");
}

}  // namespace ccoll::control
