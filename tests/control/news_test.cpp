// SPDX-License-Identifier: Apache-2.0
#include "control/news.hpp"

#include <catch2/catch.hpp>

#include "harness.hpp"

namespace ccoll::control {

TEST_CASE("news: of a flood of failed communicators the oldest are forgotten, and never a loss",
          "[unit]") {
  const Failure failure{ErrorKind::timed_out, std::string(1000, 'x'), std::nullopt};
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::uint32_t kMany = 5000;
  News news(4, kBytes);
  const auto own = std::make_shared<testing::Recorder>();
  news.subscribe(1, own);
  CHECK(news.learn({3, 0, kEveryCommunicator, failure}));
  bool all_new = true;
  for (std::uint32_t i = 1; i <= kMany; i++) all_new &= news.learn({1, i, i, failure});
  CHECK(all_new);
  CHECK(news.learn({2, 0, kEveryCommunicator, failure}));
  CHECK(news.learn({2, 7, kEveryCommunicator, failure}));
  CHECK_FALSE(news.learn({3, 0, kEveryCommunicator, failure}));
  CHECK((news.is_gone(2) && news.is_gone(3) && !news.is_gone(1)));
  std::size_t bytes = 0;
  for (const FailureNews& each : news.failures()) bytes += each.failure.message.size();
  CHECK(bytes < kBytes + 3 * failure.message.size());
  CHECK(bytes > kBytes / 2);
  CHECK(news.has_failed(1));  // this rank's own
  CHECK_FALSE(news.has_failed(2));
  CHECK(news.has_failed(kMany));
  // After it is closed, it counts like any other.
  news.unsubscribe(1);
  news.learn({1, kMany + 1, kMany + 1, failure});
  CHECK_FALSE(news.has_failed(1));
}

TEST_CASE("news: a rank that fails again and again is one failure, for each whom it blames",
          "[unit]") {
  News news(4);
  const auto failure = [](std::uint32_t culprit) {
    return Failure{ErrorKind::exhausted, "no memory", culprit};
  };
  CHECK(news.learn({1, 1, kEveryCommunicator, failure(1)}));
  bool any_new = false;
  for (std::uint32_t i = 2; i < 100; i++)
    any_new |= news.learn({1, i, kEveryCommunicator, failure(1)});
  CHECK_FALSE(any_new);
  CHECK(news.learn({1, 100, kEveryCommunicator, failure(2)}));
  CHECK(news.learn({2, 1, kEveryCommunicator, failure(1)}));
  CHECK(news.learn({1, 0, kEveryCommunicator, failure(1)}));
  CHECK(news.failures().size() == 4);
}

}  // namespace ccoll::control
