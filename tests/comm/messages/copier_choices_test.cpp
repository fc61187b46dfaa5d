// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/copier_choices.hpp"

#include <catch2/catch.hpp>
#include <memory>

using namespace ccoll;
using Pattern = CopyCosts::Pattern;

namespace {

/// Up to 64 KiB slots are cheaper. Above, they are for a rank that only receives.
std::shared_ptr<const CopyCosts> some_costs() {
  CopyCosts costs;
  costs.patterns[0] = {.slots = {1, 2, 8, 32}, .loan = {2, 4, 9, 33}};
  costs.patterns[1] = {.slots = {1, 2, 9, 33}, .loan = {2, 4, 8, 32}};
  return std::make_shared<const CopyCosts>(costs);
}

Copier first_way(CopierChoices& choices, std::uint64_t bytes, Pattern pattern) {
  return choices.of(bytes, pattern).preferred().copier;
}

}  // namespace

TEST_CASE("copier choices: begin with what costs less, by size and by whether the rank sends, too",
          "[comm][unit]") {
  CopierChoices one_way(some_costs()), both_ways(some_costs()), unknown(nullptr);
  for (const std::uint64_t bytes : {1, 16 << 10}) {
    CHECK(first_way(one_way, bytes, Pattern::one_way) == Copier::sender);
    CHECK(first_way(both_ways, bytes, Pattern::both_ways) == Copier::sender);
    CHECK(first_way(unknown, bytes, Pattern::both_ways) == Copier::receiver);
  }
  for (const std::uint64_t bytes : {1 << 20, 32 << 20, 1 << 30}) {
    CHECK(first_way(one_way, bytes, Pattern::one_way) == Copier::sender);
    CHECK(first_way(both_ways, bytes, Pattern::both_ways) == Copier::receiver);
    CHECK(first_way(unknown, bytes, Pattern::one_way) == Copier::receiver);
  }
}

TEST_CASE("copier choices: sizes within a power of two share one, whatever the later patterns",
          "[comm][unit]") {
  CopierChoices choices(some_costs());
  const auto of = [&](std::uint64_t bytes) { return &choices.of(bytes, Pattern::one_way); };
  CHECK(of(1) == of((16 << 10) - 1));
  CHECK(of(64 << 10) == of((128 << 10) - 1));
  CHECK(of(128 << 10) != of((128 << 10) - 1));
  CHECK(of(UINT64_MAX) == of(std::uint64_t{1} << 40));
  const auto* const first = of(1 << 20);
  CHECK(first == &choices.of(1 << 20, Pattern::both_ways));
  CHECK(first_way(choices, 1 << 20, Pattern::both_ways) == Copier::sender);
}
