// SPDX-License-Identifier: Apache-2.0
#include "core/float_state.hpp"

#include <catch2/catch.hpp>
#include <cfenv>

#include "support/float_state.hpp"

using namespace ccoll;
using testing::float_state;

TEST_CASE("float state: the default one is there meanwhile, the thread's own afterwards",
          "[core][unit]") {
  const auto usual = float_state();
  CHECK(DefaultFloatState::is_there());
  for (const auto state : testing::unusual_float_states()) {
    const testing::UnusualFloatState unusual(state);
    const bool was_there = DefaultFloatState::is_there();
    std::uint64_t inside = 0, nested = 0;
    {
      const DefaultFloatState outer;
      const DefaultFloatState inner;
      nested = float_state();
    }
    in_default_float_state([&] { inside = float_state(); });
    const auto after = float_state();
    CAPTURE(state);
    CHECK(!was_there);
    CHECK(nested == usual);
    CHECK(inside == usual);
    CHECK(after == state);
  }
  CHECK(DefaultFloatState::is_there());
}

TEST_CASE("float state: exception flags of both states stand at the end", "[core][unit]") {
  for (const auto state : testing::unusual_float_states()) {
    const testing::UnusualFloatState unusual(state);
    std::feclearexcept(FE_ALL_EXCEPT);
    std::feraiseexcept(FE_INVALID);
    in_default_float_state([] { std::feraiseexcept(FE_DIVBYZERO); });
    const auto flags = std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    CHECK(flags == (FE_INVALID | FE_DIVBYZERO));
  }
  std::feclearexcept(FE_ALL_EXCEPT);
}
