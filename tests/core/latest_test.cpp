// SPDX-License-Identifier: Apache-2.0
#include "core/latest.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

using namespace ccoll;

TEST_CASE("latest: as many keys as there is room for are known, whichever came last", "[core]") {
  constexpr std::size_t kRoom = 5;
  Latest<int, kRoom> latest;
  std::deque<int> expected;
  std::mt19937 random(Catch::rngSeed());
  for (int i = 0; i < 1000; i++) {
    const int key = static_cast<int>(random() % 12);
    const bool is_new = std::ranges::find(expected, key) == expected.end();
    CHECK(latest.add(key) == is_new);
    if (is_new) expected.push_back(key);
    if (expected.size() > kRoom) expected.pop_front();
    for (int each = 0; each < 12; each++)
      CHECK(latest.contains(each) == (std::ranges::find(expected, each) != expected.end()));
  }
}
