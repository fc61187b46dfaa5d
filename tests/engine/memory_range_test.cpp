// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_range.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "support/effort.hpp"

namespace ccoll {

TEST_CASE("memory range: any part of rows is gathered and scattered byte by byte", "[engine]") {
  std::mt19937_64 random(Catch::rngSeed());
  for (int round = 0; round < testing::by_effort(200, 2000, 20'000); round++) {
    const std::size_t row = 1 + random() % 70, stride = row + random() % 9;
    const std::size_t rows = 1 + random() % 20, offset = random() % row;
    std::vector<std::byte> memory(rows * stride);
    for (auto& byte : memory) byte = static_cast<std::byte>(random());
    const MemoryRange range{memory.data() + offset, rows * row - offset, row, stride, offset};
    const auto at = random() % range.bytes, bytes = 1 + random() % (range.bytes - at);
    const auto place = [&](std::size_t i) {
      const auto byte = offset + at + i;
      return byte / row * stride + byte % row;
    };
    std::vector<std::byte> gathered(bytes);
    gather(range, at, bytes, gathered.data());
    auto expected = memory;
    bool is_right = true;
    for (std::size_t i = 0; i < bytes; i++) {
      is_right &= gathered[i] == memory[place(i)];
      gathered[i] ^= std::byte{0xff};
      expected[place(i)] = gathered[i];
    }
    scatter(gathered.data(), bytes, range, at);
    CAPTURE(row, stride, rows, offset, at, bytes);
    REQUIRE(is_right);
    REQUIRE(memory == expected);
  }
}

}  // namespace ccoll
