// SPDX-License-Identifier: Apache-2.0
#include "gpu/group/group_words.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using ccoll::ErrorKind;
using ccoll::Failure;
using ccoll::device::GroupWords;

TEST_CASE("group words: whoever sees that a rank gives up sees why", "[gpu]") {
  const Failure why{ErrorKind::peer_lost, "rank 2 was lost: " + std::string(500, '.'), 2};
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::uint64_t> memory(GroupWords::bytes(2, 1) / sizeof(std::uint64_t) + 1);
    const GroupWords words(reinterpret_cast<std::byte*>(memory.data()), 2, 1);
    std::thread giving([&] { words.give_up(0, why); });
    std::optional<Failure> seen;
    while (!seen) seen = words.cause(1);
    giving.join();
    REQUIRE(seen->kind == ErrorKind::peer_lost);
    REQUIRE(seen->culprit == 2);
  }
}
