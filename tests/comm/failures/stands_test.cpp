// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/stands.hpp"

#include <catch2/catch.hpp>

#include "control/control.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;

/// Any moment will do.
constexpr Stands::Clock::time_point kNow{100s};

struct Made {
  History history;
  Stands stands{history, Clocks::now()};
};

}  // namespace

TEST_CASE("stands: an answer tells how far this rank has come", "[comm][unit]") {
  Made made;
  CHECK(made.stands.answer(0, kNow) == "had not reached this call, nor any before");
  CHECK(made.stands.answer(kFirstMessage, kNow) == "had made no collective call");
  made.history.record({});
  made.history.record({});
  CHECK_THAT(made.stands.answer(2, kNow),
             Matches(R"(had not reached this call \(it began its last, call 1, \d+ ms before\))"));
  CHECK_THAT(made.stands.answer(1, kNow), Matches(R"(had begun this call \d+ ms before)"));
  CHECK_THAT(made.stands.answer(0, kNow),
             Matches(R"(had begun this call \d+ ms before, and call 1 since)"));
  CHECK_THAT(made.stands.answer(kFirstMessage, kNow),
             StartsWith("was not stuck in a collective call (it began its last, call 1,"));
}

TEST_CASE("stands: a rank that is stuck says so until it moves", "[comm][unit]") {
  Made made;
  made.history.record({});
  made.stands.set(StandReport{0, "at step 2 of 3", kNow - 20ms});
  CHECK(made.stands.answer(0, kNow) == "made no progress for 20 ms, at step 2 of 3");
  CHECK(made.stands.answer(kFirstMessage, kNow) ==
        "made no progress in call 0 for 20 ms, at step 2 of 3");
  CHECK_THAT(made.stands.answer(1, kNow), StartsWith("had not reached this call"));
  made.stands.set(std::nullopt);
  CHECK_THAT(made.stands.answer(0, kNow), StartsWith("had begun this call"));
}

TEST_CASE("stands: a question goes to each rank once, and to few", "[comm][unit]") {
  Made made;
  CHECK(made.stands.ask({5, kNow, {4, 2, 4, 2}}) == std::vector<Rank>{2, 4});
  CHECK(made.stands.ask({5, kNow, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}) ==
        std::vector<Rank>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("stands: answers are shown by rank, after those who said nothing", "[comm][unit]") {
  Made made;
  CHECK(made.stands.answers_about(5, kNow).empty());
  made.stands.ask({5, kNow - 30ms, {4, 2, 3}});
  CHECK(made.stands.answers_about(5, kNow) == "; asked 30 ms before: ranks 2-4 did not answer");
  made.stands.take_answer(3, 5, "sleeps");
  made.stands.take_answer(9, 5, "was not asked");
  made.stands.take_answer(2, 4, "speaks of another call");
  CHECK(made.stands.answers_about(5, kNow) ==
        "; asked 30 ms before: rank 3 sleeps; ranks 2, 4 did not answer");
  CHECK(made.stands.answers_about(4, kNow).empty());
  made.stands.ask({5, kNow, {3}});
  CHECK(made.stands.answers_about(5, kNow) == "; asked 0 ms before: rank 3 did not answer");
}

TEST_CASE("stands: an answer of another version is shown in part, and without its control bytes",
          "[comm][unit]") {
  Made made;
  made.stands.ask({5, kNow, {3}});
  made.stands.take_answer(3, 5, std::string(1000, 'x') + "\x1b");
  const auto shown = made.stands.answers_about(5, kNow);
  CHECK(shown.size() < 250);
  CHECK_THAT(shown, Catch::Matchers::EndsWith("x..."));
  made.stands.take_answer(3, 5, "a\x1b");
  CHECK(made.stands.answers_about(5, kNow).find('\x1b') == std::string::npos);
}

TEST_CASE("stands: the absent rank is one that said so, else one that was silent", "[comm][unit]") {
  Made made;
  const std::vector<Rank> needed = {2, 3, 4};
  CHECK(made.stands.absent(5, needed) == std::nullopt);
  made.stands.ask({5, kNow, {1, 2, 3, 4}});
  CHECK(made.stands.absent(6, needed) == std::nullopt);
  CHECK(made.stands.absent(5, needed) == Rank{2});
  made.stands.take_answer(4, 5, Made().stands.answer(5, kNow));
  made.stands.take_answer(1, 5, Made().stands.answer(5, kNow));
  CHECK(made.stands.absent(5, needed) == Rank{4});
  // It has come since, so it is not needed any more.
  CHECK(made.stands.absent(5, {2, 3}) == Rank{2});
  made.stands.take_answer(2, 5, "had begun this call");
  CHECK(made.stands.absent(5, {2}) == std::nullopt);
}

TEST_CASE("stands: a cycle is known by the call that waits in it", "[comm][unit]") {
  Made made;
  CHECK(made.stands.cycle_of(5).empty());
  made.stands.note_cycle(5, "0 -> 1 -> 0");
  made.stands.note_cycle(5, "0 -> 2 -> 0");
  CHECK(made.stands.cycle_of(5) == "0 -> 2 -> 0");
  CHECK(made.stands.cycle_of(6).empty());
}

}  // namespace ccoll
