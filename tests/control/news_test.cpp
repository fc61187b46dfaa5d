// SPDX-License-Identifier: Apache-2.0
#include "control/news.hpp"

#include <catch2/catch.hpp>

namespace ccoll::control {

TEST_CASE("news: of a flood of failed communicators the oldest are forgotten, and never a loss",
          "[unit]") {
  constexpr auto kMost = static_cast<std::uint32_t>(News::kMaxRemembered);
  const Failure failure{ErrorKind::timed_out, "late", std::nullopt};
  News news(4);
  CHECK(news.learn({3, 0, kEveryCommunicator, failure}));
  bool all_new = true;
  for (std::uint32_t i = 0; i < kMost + 10; i++) all_new &= news.learn({1, i + 1, i + 1, failure});
  CHECK(all_new);
  CHECK(news.learn({2, 0, kEveryCommunicator, failure}));
  CHECK(news.learn({2, 7, kEveryCommunicator, failure}));
  CHECK_FALSE(news.learn({3, 0, kEveryCommunicator, failure}));
  CHECK((news.is_gone(2) && news.is_gone(3) && !news.is_gone(1)));
  CHECK(news.failures().size() == kMost + 3);
  CHECK_FALSE(news.has_failed(10));
  CHECK(news.has_failed(11));
  CHECK(news.has_failed(kMost + 10));
}

}  // namespace ccoll::control
