// SPDX-License-Identifier: Apache-2.0
// Waiting for calls of several communicators whose operations are made up here.
#include "comm/progress/group_wait.hpp"

#include <asio/io_context.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/progress/owner.hpp"
#include "support/effort.hpp"

namespace ccoll {
namespace {

/// Ends its call after some rounds, of which each needs one that another communicator has made.
class Linked final : public Progress::Operations {
 public:
  bool busy(Owned /*owned*/) const override { return !call->done; }
  bool advance(Owned /*owned*/, Attention /*attention*/) override {
    if (!may_go || call->done || (partner != nullptr && partner->rounds < rounds)) return false;
    if (must_be_free != nullptr) {
      const auto flag = must_be_free->progress->try_own();
      if (!flag) return false;
      must_be_free->progress->disown(*flag);
    }
    if (in_round) in_round();
    if (++rounds == 10) call->end();
    return true;
  }
  Clock::time_point supervise(Owned /*owned*/, Clock::time_point now) override {
    return now + std::chrono::milliseconds(1);
  }
  std::vector<Rank> awaited(Owned /*owned*/, const Work::State& /*work*/) const noexcept override {
    return {};
  }
  void slept(Owned /*owned*/, std::vector<Rank> /*awaited*/,
             Clock::duration /*time*/) noexcept override {
    sleeps++;
  }
  bool has_reached() const override { return false; }
  Status may_wait() const override { return {}; }
  void threw(Owned /*owned*/, const Failure& /*failure*/) override {}

  Work work() const {
    return Work(std::make_shared<Work::State>(Work::State{progress->weak(), {call}}));
  }

  const Linked* partner = nullptr;
  Linked* must_be_free = nullptr;  ///< the flag of this one
  std::function<void()> in_round;
  std::atomic<bool> may_go{true};
  int rounds = 0;
  std::atomic<int> sleeps{0};
  const std::shared_ptr<Operation> call = std::make_shared<Operation>();
  asio::io_context context;  // nobody runs it
  const std::shared_ptr<Progress> progress =
      std::make_shared<Progress>(*this, Waiter::make().value(), &Clock::now);

  Linked() { progress->start(context, progress, {}); }
  ~Linked() { progress->stop(); }
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;
};

}  // namespace

TEST_CASE("group wait: moves on communicators that wait for each other", "[comm][unit]") {
  Linked first, second;
  first.partner = &second;
  second.partner = &first;
  wait_for_all({first.work(), second.work()});
  CHECK(first.call->done);
  CHECK(second.call->done);
  // Each flag is free again.
  CHECK(first.progress->try_own());
  CHECK(second.progress->try_own());
}

TEST_CASE("group wait: a communicator is let go once its calls are over", "[comm][unit]") {
  Linked first, second;
  second.must_be_free = &first;
  wait_for_all({first.work(), second.work(), first.work(), Work(std::make_shared<Work::State>())});
  CHECK(first.call->done);
  CHECK(second.call->done);
}

TEST_CASE("group wait: one whose communicator has ended is not waited for", "[comm][unit]") {
  Linked living;
  Work ended;
  {
    Linked gone;
    ended = gone.work();
    gone.call->end();
  }
  wait_for_all({ended, living.work()});
  CHECK(living.call->done);
  CHECK(living.sleeps == 0);
}

TEST_CASE("group wait: a function that it calls may not wait for what its thread holds",
          "[comm][unit]") {
  Linked first, second, other;
  int refusals = 0;
  first.in_round = [&] {
    CHECK(other.progress->may_wait());
    // An inner wait does not hide the outer one.
    if (!other.call->done) wait_for_all({other.work()});
    for (const auto* each : {&first, &second}) refusals += each->progress->may_wait() ? 0 : 1;
    CHECK_THROWS_AS(Owner(*second.progress), Error);
  };
  second.partner = &first;
  other.in_round = [&] { CHECK_FALSE(first.progress->may_wait()); };
  wait_for_all({first.work(), second.work()});
  CHECK(refusals == 20);
  CHECK(first.progress->may_wait());
}

TEST_CASE("group wait: has no flag while it waits for one that another thread has",
          "[comm][unit]") {
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    Linked first, second;
    Linked& held = is_first ? first : second;
    Linked& wanted = is_first ? second : first;
    auto holding = std::make_unique<const Owner<>>(*held.progress);
    std::thread group([&] { wait_for_all({first.work(), second.work()}); });
    while (!held.progress->is_wanted()) std::this_thread::yield();
    // As a reduction's function does that uses another communicator.
    const auto end = Clock::now() + testing::kPatience;
    auto owned = wanted.progress->try_own();
    while (!owned && Clock::now() < end) owned = wanted.progress->try_own();
    CHECK(owned);
    if (owned) wanted.progress->disown(*owned);
    holding.reset();
    group.join();
  }
}

TEST_CASE("group wait: sleeps while nothing moves, and each communicator counts that",
          "[comm][unit]") {
  Linked first, second;
  first.partner = second.partner = &first;
  first.may_go = second.may_go = false;
  std::thread later([&] {
    while (first.sleeps == 0) std::this_thread::yield();
    first.may_go = second.may_go = true;
  });
  wait_for_all({first.work(), second.work()});
  later.join();
  CHECK(second.sleeps > 0);
}

}  // namespace ccoll
