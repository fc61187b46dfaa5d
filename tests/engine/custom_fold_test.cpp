// SPDX-License-Identifier: Apache-2.0
#include "engine/custom_fold.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>

using namespace ccoll;

namespace {

/// Calls `function` once, for `whose`.
void fold_once(const void* whose, const CombineElements& function) {
  const Reduction::Custom custom{function, {.name = "once"}};
  const std::int32_t values[] = {1, 2};
  const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(&values[0]),
                                      reinterpret_cast<const std::byte*>(&values[1])};
  std::int32_t out = 0;
  CustomFold fold(DataType::int32, sizeof out);
  fold(custom, whose, sources, 2, reinterpret_cast<std::byte*>(&out), 1);
}

}  // namespace

TEST_CASE("custom fold: whose functions a thread is in is known at any depth", "[engine][unit]") {
  const char first = 0, second = 0;
  int looks = 0;
  const auto inside = [&](bool first_is, bool second_is) {
    looks++;
    CHECK(is_folding_for(&first) == first_is);
    CHECK(is_folding_for(&second) == second_is);
  };
  inside(false, false);
  fold_once(&first, [&](const void*, void*, std::size_t, DataType) {
    inside(true, false);
    fold_once(&second, [&](const void*, void*, std::size_t, DataType) {
      inside(true, true);
      throw std::runtime_error("the inner one ends");
    });
    inside(true, false);
  });
  inside(false, false);
  CHECK(looks == 5);
}
