// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/blocks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

using ccoll::device::Blocks;

TEST_CASE("blocks: one is found wherever there is room, and no two have any in common",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr std::size_t kBytes = 200;
  Blocks blocks(kBytes);
  std::vector<bool> taken(kBytes);
  std::map<std::uint64_t, std::uint64_t> all;
  const auto mark = [&](std::uint64_t begin, std::uint64_t bytes, bool is) {
    for (auto i = begin; i < begin + bytes; i++) {
      REQUIRE(taken.at(i) != is);
      taken[i] = is;
    }
  };
  for (int i = 0; i < 5000; i++) {
    if (random() % 2 == 0 && !all.empty()) {
      const auto which = std::next(all.begin(), static_cast<std::ptrdiff_t>(random() % all.size()));
      mark(which->first, which->second, false);
      blocks.give_back(which->first);
      all.erase(which);
      continue;
    }
    const std::size_t bytes = 1 + random() % 60;
    const auto found = blocks.find(bytes);
    const auto gap = std::search_n(taken.begin(), taken.end(), static_cast<int>(bytes), false);
    REQUIRE(found.has_value() == (gap != taken.end()));
    if (!found) continue;
    blocks.take(*found, bytes);
    mark(*found, bytes, true);
    all[*found] = bytes;
  }
}
