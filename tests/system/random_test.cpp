// SPDX-License-Identifier: Apache-2.0
#include "system/random.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace ccoll {

TEST_CASE("random: no two secrets are alike, and too many bytes are refused", "[system]") {
  std::array<std::byte, 32> one{}, other{};
  REQUIRE(fill_random(one));
  REQUIRE(fill_random(other));
  CHECK(one != other);
  CHECK(one != std::array<std::byte, 32>{});
  std::array<std::byte, 257> many{};
  const auto refused = fill_random(many);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("the system gives no random bytes: ") == 0);
}

}  // namespace ccoll
