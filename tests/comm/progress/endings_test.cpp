// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/endings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "support/eventually.hpp"

namespace ccoll::test {
namespace {

class Counted final : public Callback {
 public:
  explicit Counted(std::atomic<int>& runs) : runs_(runs) {}
  void run() noexcept override { runs_++; }

 private:
  std::atomic<int>& runs_;
};

std::shared_ptr<Ending> counted(std::atomic<int>& runs, std::size_t operations = 1) {
  CallbackThreads::start();
  return std::make_shared<Ending>(std::make_unique<Counted>(runs), operations);
}

}  // namespace

TEST_CASE("endings: each runs once, whether it was added before the end, at it or after",
          "[comm][unit][property]") {
  constexpr int kThreads = 3, kEach = 50;
  for (int trial = 0; trial < 100; trial++) {
    std::vector<std::atomic<int>> runs(kThreads * kEach);
    Endings endings;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++)
      threads.emplace_back([&runs, &endings, thread] {
        for (int i = 0; i < kEach; i++) endings.add(counted(runs[thread * kEach + i]));
      });
    if (trial % 2 == 0) std::this_thread::yield();
    endings.tell();
    for (auto& thread : threads) thread.join();
    endings.tell();
    std::atomic<int> last = 0;
    endings.add(counted(last));
    REQUIRE(testing::eventually([&] {
      return last == 1 && std::ranges::all_of(runs, [](const auto& each) { return each >= 1; });
    }));
    CHECK(std::ranges::all_of(runs, [](const auto& each) { return each == 1; }));
  }
}

TEST_CASE("endings: of several operations the last one runs it", "[comm][unit]") {
  std::atomic<int> runs = 0, after = 0;
  std::vector<Endings> operations(5);
  const auto ending = counted(runs, operations.size());
  for (auto& each : operations) each.add(ending);
  for (auto& each : operations) {
    // Callbacks run in order, so this one would come after the ending's.
    const int before = after;
    Endings over;
    over.tell();
    over.add(counted(after));
    REQUIRE(testing::eventually([&] { return after == before + 1; }));
    CHECK(runs == 0);
    each.tell();
  }
  CHECK(testing::eventually([&] { return runs == 1; }));
}

TEST_CASE("endings: an operation that begins again ends again", "[comm][unit]") {
  std::atomic<int> runs = 0;
  Endings endings;
  for (int round = 1; round <= 3; round++) {
    endings.add(counted(runs));
    endings.tell();
    REQUIRE(testing::eventually([&] { return runs == round; }));
    endings.begin_again();
  }
}

}  // namespace ccoll::test
