// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/spin_policy.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;

/// How often it polls again before it sleeps, if nothing moves.
int polls_of(SpinPolicy& policy) {
  constexpr int kTooMany = 1'000'000;
  int polls = 0;
  while (policy.keep_polling()) REQUIRE(++polls < kTooMany);
  return polls;
}

}  // namespace

TEST_CASE("spin policy: with a core of its own a rank polls equally often after each movement",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  // It never asks for the time, which would cost more than a poll.
  const Now unused = nullptr;
  SpinPolicy waiting(false, unused), brief = SpinPolicy::brief(),
                                     begun = SpinPolicy::short_one(false, true, unused);
  for (auto* const policy : {&waiting, &begun, &brief}) {
    const int polls = polls_of(*policy);
    CHECK(polls > 0);
    CHECK_FALSE(policy->keep_polling());  // until something moves
    for (int trial = 0; trial < 20; trial++) {
      policy->reset();
      for (auto some = random() % static_cast<unsigned>(polls); some > 0; some--)
        REQUIRE(policy->keep_polling());
      policy->reset();
      CHECK(polls_of(*policy) == polls);
    }
    policy->reset();
  }
  // A call that may be handed back, or whose caller may hold a lock, gives up earlier.
  const int of_brief = polls_of(brief), of_begun = polls_of(begun);
  CHECK(of_brief < of_begun);
  CHECK(of_begun < polls_of(waiting));
}

TEST_CASE("spin policy: oversubscribed, a rank sleeps after some time, however often it has polled",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr auto kYields = 100us;
  for (auto policy :
       {SpinPolicy(true, &now_shown), SpinPolicy::short_one(true, true, &now_shown)}) {
    for (int trial = 0; trial < 100; trial++) {
      // Time counts from the first poll in vain, not from the movement before.
      policy.reset();
      pass(std::chrono::microseconds(random() % 1000));
      CHECK(policy.keep_polling());
      for (auto left = kYields; left > 0us;) {
        for (int polls = 0; polls < 20; polls++) REQUIRE(policy.keep_polling());
        const std::chrono::microseconds step(1 + random() % 50);
        pass(step);
        left -= step;
      }
      CHECK_FALSE(policy.keep_polling());
      CHECK_FALSE(policy.keep_polling());
    }
  }
}

TEST_CASE("spin policy: oversubscribed, a call whose polls are dear sleeps at once",
          "[comm][unit]") {
  auto policy = SpinPolicy::short_one(true, false, &now_shown);
  CHECK_FALSE(policy.keep_polling());
  policy.reset();
  CHECK_FALSE(policy.keep_polling());
}

}  // namespace ccoll::test
