// SPDX-License-Identifier: Apache-2.0

/// Memory next to a source belongs to other code, which may be writing it. Only the thread
/// sanitizer detects reads of it.

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "kernels/device/combine.hpp"

namespace ccoll::device {

TEST_CASE("words that are shifted together lie within their source", "[kernels][device]") {
  alignas(16) std::array<std::byte, 160> memory = {};
  alignas(16) std::array<std::byte, 160> target = {};
  constexpr std::size_t kBytes = 96;
  for (std::size_t offset = 1; offset < 16; ++offset) {
    {
      const std::jthread other([&] {
        std::memset(memory.data(), 1, offset);
        std::memset(memory.data() + offset + kBytes, 1, memory.size() - offset - kBytes);
      });
      copy(LoneThread(), memory.data() + offset, target.data(), kBytes);
    }
    std::memset(memory.data(), 0, memory.size());
    CHECK(target == std::array<std::byte, 160>{});
  }
}

}  // namespace ccoll::device
