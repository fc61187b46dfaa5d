// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/verdict.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "comm/owned.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

/// Any moment will do.
constexpr Verdict::Clock::time_point kUntil{100s};

Failure failure(std::string text, std::optional<std::uint32_t> culprit = std::nullopt) {
  return {ErrorKind::peer_lost, std::move(text), culprit};
}

/// Ranks 0 and 2 both made call 5, but of different sizes.
DifferentCalls different() {
  Signature mine;
  mine.count = 1;
  Signature theirs;
  theirs.count = 2;
  return {{0, 5, mine}, {2, 5, theirs}, "sizes differ"};
}

}  // namespace

TEST_CASE("verdict: a communicator is calm until something is wrong", "[comm][unit]") {
  CHECK(Verdict().is_calm(kOwned));
  Verdict broken;
  broken.break_with(kOwned, failure("a"));
  CHECK_FALSE(broken.is_calm(kOwned));
  Verdict suspects;
  suspects.suspect(kOwned, failure("a"), kUntil);
  CHECK_FALSE(suspects.is_calm(kOwned));
  Verdict hears;
  hears.hear(failure("a"));
  CHECK_FALSE(hears.is_calm(kOwned));
  Verdict is_told;
  is_told.notify();
  CHECK_FALSE(is_told.is_calm(kOwned));
}

TEST_CASE("verdict: the first failure, suspicion and news stay", "[comm][unit]") {
  Verdict verdict;
  CHECK(verdict.suspect(kOwned, failure("suspected"), kUntil));
  CHECK_FALSE(verdict.suspect(kOwned, failure("later"), kUntil + 1s));
  CHECK_FALSE(verdict.suspect(kOwned, different(), 2, kUntil + 1s));
  CHECK(verdict.suspicion(kOwned)->message == "suspected");
  CHECK(verdict.suspected_until(kOwned) == kUntil);
  CHECK(verdict.hear(failure("heard")));
  CHECK_FALSE(verdict.hear(failure("later")));
  CHECK(verdict.heard()->message == "heard");
  CHECK_FALSE(verdict.broken(kOwned));
  verdict.break_with(kOwned, failure("broken"));
  verdict.break_with(kOwned, failure("later"));
  CHECK(verdict.broken(kOwned)->message == "broken");
}

TEST_CASE("verdict: what broke it counts before the news", "[comm][unit]") {
  Verdict verdict;
  CHECK_FALSE(verdict.first());
  verdict.suspect(kOwned, failure("suspected"), kUntil);
  CHECK_FALSE(verdict.first());
  verdict.hear(failure("heard"));
  CHECK(verdict.first()->message == "heard");
  verdict.break_with(kOwned, failure("broken"));
  CHECK(verdict.first()->message == "broken");
}

TEST_CASE("verdict: each notice is taken once", "[comm][unit]") {
  Verdict verdict;
  CHECK_FALSE(verdict.take_notice(kOwned));
  verdict.hear(failure("heard"));
  CHECK(verdict.has_news());
  CHECK(verdict.take_notice(kOwned));
  CHECK_FALSE(verdict.take_notice(kOwned));
  CHECK_FALSE(verdict.has_news());
  // The news is still there, and a later one is none.
  CHECK(verdict.heard());
  verdict.hear(failure("later"));
  CHECK_FALSE(verdict.has_news());
  verdict.notify();
  CHECK(verdict.take_notice(kOwned));
}

TEST_CASE("verdict: news without a culprit are told apart", "[comm][unit]") {
  Verdict verdict;
  CHECK_FALSE(verdict.heard_without_culprit());
  verdict.hear(failure("a rank is lost", 3));
  CHECK_FALSE(verdict.heard_without_culprit());
  Verdict other;
  other.hear(failure("a start-up was given up"));
  CHECK(other.heard_without_culprit()->message == "a start-up was given up");
}

TEST_CASE("verdict: a mismatch tells the peer's label when that arrives", "[comm][unit]") {
  Verdict verdict;
  CHECK_FALSE(verdict.take_label(kOwned));
  CHECK(verdict.suspect(kOwned, different(), 7, kUntil));
  CHECK(verdict.suspicion(kOwned)->kind == ErrorKind::mismatch);
  CHECK(verdict.suspicion(kOwned)->culprit == 7U);
  const auto before = verdict.suspicion(kOwned)->message;
  CHECK(before == different().text());
  CHECK_FALSE(verdict.take_label(kOwned));
  // These are answers about other calls.
  verdict.hear_label({1, 5, {}, note_of("of another rank", "")});
  CHECK_FALSE(verdict.take_label(kOwned));
  verdict.hear_label({2, 4, {}, note_of("of another call", "")});
  CHECK_FALSE(verdict.take_label(kOwned));
  CHECK(verdict.suspicion(kOwned)->message == before);
  verdict.hear_label({2, 5, {}, note_of("gradients", "")});
  CHECK(verdict.take_label(kOwned));
  CHECK_THAT(verdict.suspicion(kOwned)->message, Contains("\"gradients\""));
}

TEST_CASE("verdict: a label is nothing to a suspicion that is no mismatch", "[comm][unit]") {
  Verdict verdict;
  verdict.suspect(kOwned, failure("suspected"), kUntil);
  verdict.hear_label({2, 5, {}, note_of("gradients", "")});
  CHECK_FALSE(verdict.take_label(kOwned));
  CHECK(verdict.suspicion(kOwned)->message == "suspected");
}

TEST_CASE("verdict: who sees news finds the notice of them", "[comm][unit]") {
  for (int round = 0; round < 2000; round++) {
    Verdict verdict;
    std::atomic<bool> is_ready{false};
    std::thread control([&] {
      is_ready = true;
      verdict.hear(failure("heard"));
    });
    while (!is_ready) std::this_thread::yield();
    while (!verdict.first()) std::this_thread::yield();
    const bool has_notice = verdict.has_news();
    control.join();
    REQUIRE(has_notice);
  }
}

}  // namespace ccoll
