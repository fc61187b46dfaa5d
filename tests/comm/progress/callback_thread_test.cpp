// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/callback_thread.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "support/children.hpp"
#include "support/eventually.hpp"
#include "support/real_time.hpp"

using namespace ccoll;

namespace {

class Function final : public Callback {
 public:
  explicit Function(std::function<void()> function) : function_(std::move(function)) {}
  void run() noexcept override { function_(); }

 private:
  const std::function<void()> function_;
};

void call(std::function<void()> function) {
  CallbackThreads::run(std::make_unique<Function>(std::move(function)));
}

bool comes(std::future<void> event) {
  return event.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

}  // namespace

TEST_CASE("each thread runs callbacks in their order, and each runs once", "[comm]") {
  CallbackThreads::start();
  constexpr int kCalls = 10'000;
  std::mutex mutex;
  // More than one thread may run them if one is descheduled for longer than the others wait.
  std::map<std::thread::id, std::vector<int>> ran;
  std::atomic<int> left = kCalls;
  std::promise<void> over;
  for (int i = 0; i < kCalls; i++)
    call([&, i] {
      {
        const std::lock_guard lock(mutex);
        ran[std::this_thread::get_id()].push_back(i);
      }
      if (--left == 0) over.set_value();
    });
  REQUIRE(comes(over.get_future()));
  const std::lock_guard lock(mutex);
  std::vector<int> all;
  for (const auto& [thread, its] : ran) {
    CHECK(std::is_sorted(its.begin(), its.end()));
    all.insert(all.end(), its.begin(), its.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<int> expected(kCalls);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(all == expected);
}

TEST_CASE("a callback may wait for later ones, however many wait before it", "[comm]") {
  CallbackThreads::start();
  constexpr int kWaiting = 10;
  std::promise<void> last;
  const auto awaited = last.get_future().share();
  std::vector<std::promise<void>> over(kWaiting);
  for (auto& each : over)
    call([&] {
      awaited.wait();
      each.set_value();
    });
  call([&] { last.set_value(); });
  for (auto& each : over) CHECK(comes(each.get_future()));
}

TEST_CASE("callbacks that wait for others do not take threads without an end", "[comm]") {
  CallbackThreads::start();
  constexpr int kWaiting = 200;
  std::promise<void> go_on;
  const auto awaited = go_on.get_future().share();
  std::atomic<int> waiting = 0;
  std::vector<std::promise<void>> over(kWaiting);
  for (auto& each : over)
    call([&] {
      waiting++;
      awaited.wait();
      each.set_value();
    });
  CHECK(testing::eventually([&] { return waiting > 10; }));
  testing::leave_time(std::chrono::seconds(1));
  CHECK(waiting < 100);
  go_on.set_value();
  for (auto& each : over) CHECK(comes(each.get_future()));
}

TEST_CASE("a forked child has callbacks of its own", "[comm]") {
  if (!testing::kChildrenHaveThreads) return;
  CallbackThreads::start();
  std::promise<void> over;
  const auto released = over.get_future().share();
  call([released] { released.wait(); });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    CallbackThreads::start();
    call([] { _exit(0); });
    for (;;) pause();
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  over.set_value();
}
