// SPDX-License-Identifier: Apache-2.0
// Progress over operations that are made up here: no communicator, no link, no other rank.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/progress/progress.hpp"
#include "net/service.hpp"
#include "support/asleep.hpp"
#include "support/eventually.hpp"
#include "support/real_time.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<Operation> call() { return std::make_shared<Operation>(); }
Work::State work_of(const std::shared_ptr<Operation>& operation) { return {{}, {operation}}; }

/// The time that a test's own clock shows.
std::atomic<Clock::time_point> shown{Clock::time_point{100s}};
Clock::time_point now_shown() { return shown; }

thread_local int rounds_of_this_thread = 0;

/// Ends its calls one after another, each after some rounds. Only the flag's holder touches them,
/// which each function checks.
class Rounds final : public Progress::Operations {
 public:
  /// From any thread that holds the flag; 0 rounds: it never moves by itself.
  void add(std::shared_ptr<Operation> operation, int rounds) {
    const Alone alone(*this);
    calls_.emplace_back(std::move(operation), rounds);
  }

  bool busy(Owned /*owned*/) const override { return !calls_.empty(); }
  bool advance(Owned /*owned*/, Attention attention) override {
    const Alone alone(*this);
    rounds_++;
    rounds_of_this_thread++;
    if (attention == Attention::everyone) looks_before_sleep_++;
    if (throws_.load()) throw std::bad_alloc();
    if (calls_.empty() || calls_.front().second == 0) return false;
    if (--calls_.front().second == 0) end_first();
    return true;
  }
  Clock::time_point supervise(Owned /*owned*/, Clock::time_point now) override {
    const Alone alone(*this);
    looks_++;
    if (!calls_.empty() && now >= deadline_) end_first();
    if (each_look_takes_ == 0s) return std::min(now + 1h, deadline_);
    shown = now + each_look_takes_;
    return now;
  }
  std::vector<Rank> awaited(Owned /*owned*/, const Work::State& /*work*/) const noexcept override {
    return {7};
  }
  void slept(Owned /*owned*/, std::vector<Rank> awaited,
             Clock::duration /*time*/) noexcept override {
    slept_for_ = std::move(awaited);
  }
  bool has_reached() const override {
    (std::this_thread::get_id() == test_thread_ ? asked_here_ : asked_elsewhere_)++;
    holders_ = progress_.use_count();
    return has_reached_.load();
  }
  Status may_wait() const override { return {}; }
  void threw(Owned /*owned*/, const Failure& failure) override {
    const Alone alone(*this);
    throws_ = false;
    while (!calls_.empty()) {
      calls_.front().first->failure = failure;
      end_first();
    }
  }

  std::atomic<bool> throws_{false};
  std::atomic<bool> has_reached_{false};
  mutable std::atomic<int> asked_here_{0}, asked_elsewhere_{0};  ///< has_reached()
  mutable std::atomic<long> holders_{0};  ///< of the progress, when that was asked
  const std::thread::id test_thread_ = std::this_thread::get_id();
  std::weak_ptr<Progress> progress_;
  std::atomic<int> rounds_{0};
  std::atomic<int> looks_{0};
  std::atomic<int> looks_before_sleep_{0};
  Clock::time_point deadline_ = Clock::time_point::max();
  std::chrono::seconds each_look_takes_{0};  ///< by the test's own clock
  std::vector<Rank> slept_for_;
  std::atomic<bool> was_shared_{false};  ///< two threads were here at a time

 private:
  struct Alone {
    explicit Alone(Rounds& rounds) : rounds(rounds) {
      if (rounds.inside_.exchange(true)) rounds.was_shared_ = true;
    }
    ~Alone() { rounds.inside_ = false; }
    Rounds& rounds;
  };
  void end_first() {
    const auto first = std::move(calls_.front().first);
    calls_.erase(calls_.begin());
    first->end();
  }

  std::vector<std::pair<std::shared_ptr<Operation>, int>> calls_;
  std::atomic<bool> inside_{false};
};

/// Progress with a service thread.
struct Fixture {
  std::shared_ptr<net::Service> service = net::Service::shared();
  Rounds rounds;
  std::shared_ptr<Progress> progress;

  explicit Fixture(Now now = &Clock::now)
      : progress(std::make_shared<Progress>(rounds, value_or_throw(Waiter::make()), now)) {
    progress->start(service->context(), progress, {});
  }
  ~Fixture() {
    progress->stop();
    // A turn may still hold it for a moment.
    const std::weak_ptr<Progress> rest = progress;
    progress.reset();
    while (!rest.expired()) std::this_thread::yield();
    CHECK_FALSE(rounds.was_shared_);
  }

  /// Begins a call that takes so many rounds, and leaves it to the service thread.
  std::shared_ptr<Operation> leave(int rounds_of_call) {
    auto operation = call();
    const auto owned = progress->wait_to_own();
    rounds.add(operation, rounds_of_call);
    progress->give_back(owned, rounds);
    return operation;
  }
  bool wait(const std::shared_ptr<Operation>& operation,
            Clock::time_point limit = Clock::time_point::max()) {
    const auto owned = progress->wait_to_own();
    const bool over = progress->wait(owned, work_of(operation), limit);
    progress->give_back(owned, rounds);
    return over;
  }
};

}  // namespace

TEST_CASE("movement: a thread that waits moves all operations until its own is over",
          "[comm][unit]") {
  Fixture made;
  const auto owned = made.progress->wait_to_own();
  const auto first = call(), second = call(), third = call();
  for (const auto& each : {first, second, third}) made.rounds.add(each, 5);
  CHECK(made.progress->wait(owned, work_of(second), Clock::time_point::max()));
  CHECK(first->done);
  CHECK(second->done);
  CHECK_FALSE(third->done);
  made.progress->give_back(owned, made.rounds);
}

TEST_CASE("movement: nobody waits, so the service thread ends it", "[comm][unit]") {
  Fixture made;
  const auto operation = made.leave(1000);
  CHECK(testing::eventually([&] { return operation->done.load(); }));
}

TEST_CASE("movement: a wait ends at its limit, and the operation goes on", "[comm][unit]") {
  Fixture made;
  const auto operation = made.leave(0);
  CHECK_FALSE(made.wait(operation, Clock::now() + 20ms));
  CHECK_FALSE(operation->done);
  const auto owned = made.progress->wait_to_own();
  made.rounds.deadline_ = Clock::now();
  made.progress->give_back(owned, made.rounds);
  CHECK(made.wait(operation));
}

TEST_CASE("movement: limits are those of the clock that it is given", "[comm][unit]") {
  Fixture made(&now_shown);
  made.rounds.each_look_takes_ = 600s;
  const auto operation = call();
  const auto owned = made.progress->wait_to_own();
  made.rounds.add(operation, 0);
  const auto limit = now_shown() + 1h;
  CHECK_FALSE(made.progress->wait(owned, work_of(operation), limit));
  CHECK(now_shown() >= limit);
  made.rounds.deadline_ = limit + 1h;
  CHECK(made.progress->wait(owned, work_of(operation), limit + 2h));
  CHECK(now_shown() < limit + 2h);
  made.progress->give_back(owned, made.rounds);
}

TEST_CASE("movement: the service thread sleeps on beside owners that begin and move nothing",
          "[comm][unit]") {
  Fixture made;
  const auto operation = made.leave(0);
  const auto rounds_elsewhere = [&] { return made.rounds.rounds_ - rounds_of_this_thread; };
  const auto sleeps = [&](int rounds_before) {
    // A turn that has been scheduled comes at once.
    testing::leave_time(50ms);
    return rounds_elsewhere() == rounds_before;
  };
  const auto give_flag_round = [&](bool begins, bool settles) {
    // Nobody has it. To wait for it would ring, and so wake the service thread.
    const auto owned = made.progress->try_own();
    REQUIRE(owned.has_value());
    if (begins) made.progress->begin(*owned);
    if (settles) made.progress->settle(*owned);
    made.progress->give_back(*owned, made.rounds);
  };
  rounds_of_this_thread = 0;
  CHECK(testing::eventually([&] { return made.rounds.looks_before_sleep_ > 0; }));
  testing::Sleeper service_thread;
  asio::post(made.service->context(), [&] { service_thread.is_this_thread(); });
  CHECK(service_thread.sleeps());
  const auto asleep = rounds_elsewhere();
  for (int i = 0; i < 10; i++) give_flag_round(false, false);
  CHECK(sleeps(asleep));
  give_flag_round(true, true);
  CHECK(sleeps(asleep));
  give_flag_round(true, false);
  CHECK(testing::eventually([&] { return rounds_elsewhere() > asleep; }));
  made.rounds.deadline_ = Clock::now();
  CHECK(made.wait(operation));
}

TEST_CASE("movement: an owner makes no round while it gives the flag back", "[comm][unit]") {
  Fixture made;
  const auto operation = made.leave(0);
  for (const bool settles : {false, true}) {
    // The service thread has looked before its sleep.
    CHECK(testing::eventually([&] { return made.rounds.looks_before_sleep_ > 0; }));
    const auto owned = made.progress->wait_to_own();
    made.progress->begin(owned);
    if (settles) made.progress->round(owned);
    const auto rounds = rounds_of_this_thread;
    made.progress->give_back(owned, made.rounds);
    CHECK(rounds_of_this_thread == rounds);
  }
  made.rounds.deadline_ = Clock::now();
  CHECK(made.wait(operation));
}

TEST_CASE("movement: before it sleeps, a thread attends to everyone, and says for whom it slept",
          "[comm][unit]") {
  Fixture made;
  const auto operation = made.leave(0);
  std::thread waits([&] { made.wait(operation, Clock::now() + 100ms); });
  waits.join();
  CHECK(made.rounds.looks_before_sleep_ > 0);
  CHECK(made.rounds.slept_for_ == std::vector<Rank>{7});
}

TEST_CASE("movement: many threads wait, and each returns when its own call is over",
          "[comm][unit]") {
  Fixture made;
  std::vector<std::shared_ptr<Operation>> calls;
  for (int i = 0; i < 40; i++) calls.push_back(made.leave(50));
  std::atomic<int> over{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; i++)
    threads.emplace_back([&, i] {
      for (auto each = i; each < calls.size(); each += 4) over += made.wait(calls[each]) ? 1 : 0;
    });
  for (auto& each : threads) each.join();
  CHECK(over == 40);
}

TEST_CASE("movement: asking makes a round unless another thread has the flag", "[comm][unit]") {
  Fixture made;
  const auto owned = made.progress->wait_to_own();
  made.progress->poll();
  CHECK(made.rounds.rounds_ == 0);
  made.progress->give_back(owned, made.rounds);
  made.progress->poll();
  CHECK(made.rounds.rounds_ == 1);
  CHECK(made.rounds.looks_ == 1);
}

TEST_CASE("movement: a turn of the service thread that throws ends all operations",
          "[comm][unit]") {
  Fixture made;
  made.rounds.throws_ = true;
  const auto owned = made.progress->wait_to_own();
  const auto operation = call();
  made.rounds.add(operation, 5);
  made.progress->give_back(owned, made.rounds);
  REQUIRE(testing::eventually([&] { return operation->done.load(); }));
  REQUIRE(operation->failure.has_value());
  CHECK(operation->failure->kind == ErrorKind::exhausted);
}

TEST_CASE("movement: what a stream reaches while the flag is held gets a turn when it is free",
          "[comm][unit]") {
  Fixture made;
  const auto owned = made.progress->wait_to_own();
  made.progress->watch_streams(owned);
  made.rounds.progress_ = made.progress;
  made.rounds.has_reached_ = true;
  const auto before = made.rounds.rounds_.load();
  made.progress->give_back(owned, made.rounds);
  // A thread that has the flag from then on may end the communicator.
  CHECK(made.rounds.asked_here_ == 1);
  // Such a turn ends at once, as nothing is under way, and then begins again.
  CHECK(testing::eventually([&] { return made.rounds.asked_elsewhere_ > 1; }));
  made.rounds.has_reached_ = false;
  CHECK(made.rounds.rounds_ == before);
  const auto operation = made.leave(3);
  CHECK(testing::eventually([&] { return operation->done.load(); }));
}

TEST_CASE("movement: who gives the flag back touches nothing that another thread may end then",
          "[comm][unit]") {
  Fixture made;
  const auto owned = made.progress->wait_to_own();
  made.rounds.progress_ = made.progress;
  const bool is_watched = GENERATE(false, true);
  if (is_watched) made.progress->watch_streams(owned);
  made.progress->give_back(owned, made.rounds);
  CHECK(made.rounds.asked_here_ == (is_watched ? 1 : 0));
  // Beside this test's own pointer.
  if (is_watched) CHECK(made.rounds.holders_ == 2);
}

TEST_CASE("movement: in a forked child's copy the flag is free, and nothing is scheduled",
          "[comm][unit]") {
  Fixture made;
  const auto owned = made.progress->wait_to_own();
  made.progress->forked();
  CHECK(made.progress->is_forked());
  const auto again = made.progress->try_own();
  REQUIRE(again.has_value());
  made.rounds.add(call(), 5);
  made.progress->give_back(*again, made.rounds);
  testing::leave_time(5ms);
  CHECK(made.rounds.rounds_ == 0);
  (void)owned;
}

}  // namespace ccoll
