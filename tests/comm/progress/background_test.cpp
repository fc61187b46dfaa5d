// SPDX-License-Identifier: Apache-2.0
// Turns of the service thread, which the test makes one by one.
#include "comm/progress/background.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/progress/progress.hpp"
#include "support/effort.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;

/// Operations that do as the test says, and note what they are asked for.
struct ToldOperations final : Progress::Operations {
  bool busy(Owned /*owned*/) const override { return is_busy; }
  bool advance(Owned /*owned*/, Attention attention) override {
    rounds.push_back(attention);
    return on_round && on_round(attention);
  }
  Clock::time_point supervise(Owned /*owned*/, Clock::time_point now) override {
    looks++;
    return now + look_again;
  }
  std::vector<Rank> awaited(Owned /*owned*/, const Work::State& /*work*/) const noexcept override {
    return {};
  }
  void slept(Owned /*owned*/, std::vector<Rank> /*awaited*/,
             Clock::duration /*time*/) noexcept override {}
  bool has_reached() const override { return is_reached; }
  Status may_wait() const override { return {}; }
  void threw(Owned /*owned*/, const Failure& failure) override {
    thrown.push_back(failure.message);
  }

  bool is_busy = true, is_reached = false;
  Clock::duration look_again = 1h;
  /// Returns whether anything moves.
  std::function<bool(Attention)> on_round;
  std::vector<Attention> rounds;
  int looks = 0;
  std::vector<std::string> thrown;
};

/// The time that a turn sees.
Clock::time_point turn_time{1h};
Clock::time_point turn_now() { return turn_time; }

struct BackgroundOfOne {
  /// The service thread takes up what it has to do next; false if there is nothing.
  bool turn() {
    context.restart();
    return context.poll_one() > 0;
  }
  /// Waits until the operations are advanced again.
  bool is_woken() {
    const auto before = operations.rounds.size();
    const auto end = Clock::now() + testing::kPatience;
    context.restart();
    while (operations.rounds.size() == before && Clock::now() < end) context.run_one_for(100ms);
    return operations.rounds.size() > before;
  }
  bool is_owned() {
    const auto owned = progress->try_own();
    if (owned) progress->disown(*owned);
    return !owned;
  }

  asio::io_context context;
  ToldOperations operations;
  const std::shared_ptr<Waiter> waiter = Waiter::make().value();
  std::shared_ptr<Progress> progress = std::make_shared<Progress>(operations, waiter, &turn_now);
  const std::shared_ptr<Background> background =
      Background::make(context, progress, waiter, &turn_now);
};

}  // namespace

TEST_CASE("background: it takes a turn when it is told to, and one however often it is told",
          "[comm][unit]") {
  BackgroundOfOne one;
  CHECK_FALSE(one.turn());
  one.operations.is_busy = false;
  one.background->schedule();
  one.background->schedule();
  CHECK(one.turn());
  CHECK_FALSE(one.turn());
  CHECK(one.operations.rounds.empty());
  CHECK_FALSE(one.is_owned());
  CHECK_FALSE(one.background->sleeps());
}

TEST_CASE("background: while something moves its turns are short, and others come between",
          "[comm][unit]") {
  BackgroundOfOne one;
  one.operations.on_round = [](Attention) {
    turn_time += 50us;
    return true;
  };
  one.background->schedule();
  std::size_t rounds = 0;
  asio::post(one.context, [&] { rounds = one.operations.rounds.size(); });
  for (int turn = 1; turn <= 3; turn++) {
    CHECK(one.turn());
    CHECK(one.operations.rounds.size() == static_cast<std::size_t>(4 * turn));
    CHECK(one.operations.looks == turn);
    CHECK_FALSE(one.background->sleeps());
    if (turn == 1) {
      CHECK(one.turn());
      CHECK(rounds == 4);
    }
  }
  one.operations.is_busy = false;
  CHECK(one.turn());
  CHECK_FALSE(one.turn());
}

TEST_CASE("background: where nothing moves it sleeps until the operations want to be looked at",
          "[comm][unit]") {
  BackgroundOfOne one;
  bool announced = false;
  one.operations.on_round = [&](Attention attention) {
    if (attention == Attention::everyone) announced = one.waiter->announced();
    turn_time += 50us;
    return false;
  };
  one.background->schedule();
  CHECK(one.turn());
  REQUIRE_FALSE(one.operations.rounds.empty());
  // The last round looks at all ranks, whose news then wake it.
  CHECK(one.operations.rounds.back() == Attention::everyone);
  CHECK(announced);
  CHECK(one.background->sleeps());
  CHECK(one.background->sleeps_until() > turn_time + 59min);
  CHECK_FALSE(one.is_owned());
  CHECK_FALSE(one.turn());
  SECTION("a ring wakes it earlier") {
    one.waiter->ring();
    CHECK(one.is_woken());
    CHECK(one.background->sleeps());
  }
  SECTION("so does a peer with news") {
    one.waiter->ring_if_asleep();
    CHECK(one.is_woken());
  }
  SECTION("so does a thread that leaves it something, and it may end") {
    one.operations.is_busy = false;
    one.background->schedule();
    CHECK(one.turn());
    CHECK_FALSE(one.background->sleeps());
  }
}

TEST_CASE("background: it wakes by itself when the operations want to be looked at",
          "[comm][unit]") {
  BackgroundOfOne one;
  one.operations.look_again = 2ms;
  one.background->schedule();
  CHECK(one.turn());
  REQUIRE(one.background->sleeps());
  CHECK(one.is_woken());
}

TEST_CASE("background: a ring during the last round keeps it awake", "[comm][unit]") {
  BackgroundOfOne one;
  one.operations.on_round = [&](Attention attention) {
    if (attention == Attention::everyone) one.waiter->ring();
    return false;
  };
  one.background->schedule();
  for (int turn = 0; turn < 3; turn++) {
    CHECK(one.turn());
    CHECK_FALSE(one.background->sleeps());
  }
}

TEST_CASE("background: what moves in the last round keeps it awake, what ends there ends the turn",
          "[comm][unit]") {
  BackgroundOfOne one;
  const bool ends = GENERATE(false, true);
  one.operations.on_round = [&](Attention attention) {
    if (attention == Attention::everyone) one.operations.is_busy = !ends;
    return attention == Attention::everyone;
  };
  one.background->schedule();
  CHECK(one.turn());
  CHECK_FALSE(one.background->sleeps());
  CHECK(one.turn() != ends);
}

TEST_CASE("background: a turn that finds the flag taken has it next, and leaves work to its holder",
          "[comm][unit]") {
  BackgroundOfOne one;
  const auto owned = one.progress->try_own();
  REQUIRE(owned);
  CHECK_FALSE(one.background->is_due());
  one.background->schedule();
  CHECK(one.turn());
  CHECK(one.operations.rounds.empty());
  CHECK_FALSE(one.turn());
  // The holder's release would schedule this turn.
  one.progress->disown(*owned);
  one.background->schedule();
  CHECK(one.turn());
  CHECK_FALSE(one.operations.rounds.empty());
  CHECK_FALSE(one.background->is_due());
}

TEST_CASE("background: for a moment after such a turn pollers leave the flag alone",
          "[comm][unit]") {
  BackgroundOfOne one;
  const auto owned = one.progress->try_own();
  REQUIRE(owned);
  CHECK_FALSE(one.background->is_due());
  one.background->schedule();
  CHECK(one.turn());
  CHECK(one.background->is_due());
  turn_time += 99us;
  CHECK(one.background->is_due());
  turn_time += 1us;
  CHECK_FALSE(one.background->is_due());
  one.progress->disown(*owned);
}

TEST_CASE("background: a thread that wants the flag gets it at the end of a round",
          "[comm][unit]") {
  BackgroundOfOne one;
  std::thread other;
  bool had_it = false;
  one.operations.on_round = [&](Attention) {
    if (other.joinable()) return true;
    other = std::thread([&] {
      const auto owned = one.progress->wait_to_own();
      had_it = true;
      one.progress->disown(owned);
    });
    while (!one.progress->is_wanted()) std::this_thread::yield();
    return true;
  };
  one.background->schedule();
  CHECK(one.turn());
  other.join();
  CHECK(had_it);
  CHECK(one.operations.rounds.size() == 1);
  // The other thread schedules the next turn when it gives the flag back.
  CHECK_FALSE(one.turn());
}

TEST_CASE("background: an exception ends the operations, and the flag is free", "[comm][unit]") {
  BackgroundOfOne one;
  one.operations.on_round = [](Attention) -> bool { throw std::runtime_error("a bad reduction"); };
  one.background->schedule();
  CHECK(one.turn());
  REQUIRE(one.operations.thrown.size() == 1);
  CHECK_THAT(one.operations.thrown[0], Catch::Matchers::Contains("a bad reduction"));
  CHECK_FALSE(one.is_owned());
  CHECK_FALSE(one.turn());
}

TEST_CASE("background: a stream that has reached a call gets another turn", "[comm][unit]") {
  BackgroundOfOne one;
  one.operations.is_busy = false;
  one.operations.is_reached = true;
  one.background->schedule();
  CHECK(one.turn());
  one.operations.is_reached = false;
  CHECK(one.turn());
  CHECK_FALSE(one.turn());
}

TEST_CASE("background: no turn begins after it was stopped, nor without its communicator",
          "[comm][unit]") {
  BackgroundOfOne one;
  one.background->schedule();
  CHECK(one.turn());
  REQUIRE(one.background->sleeps());
  const auto rounds = one.operations.rounds.size();
  SECTION("stopped") {
    one.background->stop();
    while (one.turn()) {
    }
    CHECK_FALSE(one.background->sleeps());
    one.waiter->ring();
    CHECK_FALSE(one.turn());
  }
  SECTION("without its communicator") { one.progress.reset(); }
  one.background->schedule();
  CHECK(one.turn());
  CHECK_FALSE(one.background->sleeps());
  CHECK(one.operations.rounds.size() == rounds);
}

}  // namespace ccoll::test
