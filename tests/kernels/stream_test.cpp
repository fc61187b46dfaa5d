// SPDX-License-Identifier: Apache-2.0
#include "kernels/stream.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "forced_target.hpp"

using namespace ccoll;

TEST_CASE("streaming: copies every byte and no more, by any target", "[kernels][property]") {
  constexpr std::size_t kAround = 128;
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const ForcedTarget forced(target);
    for (int draw = 0; draw < 300; draw++) {
      const std::size_t bytes = random() % (draw % 2 == 0 ? 300 : 5000);
      const std::size_t to = random() % kAround, from = random() % kAround;
      CAPTURE(seed, hwy::TargetName(target), bytes, to, from);
      std::vector<std::byte> source(bytes + kAround), copy(bytes + 2 * kAround);
      for (auto& byte : source) byte = static_cast<std::byte>(random());
      for (auto& byte : copy) byte = static_cast<std::byte>(random());
      auto expected = copy;
      for (std::size_t i = 0; i < bytes; i++) expected[to + i] = source[from + i];
      stream_copy(copy.data() + to, source.data() + from, bytes);
      CHECK(copy == expected);
    }
  }
}
