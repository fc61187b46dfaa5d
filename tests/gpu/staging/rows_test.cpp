// SPDX-License-Identifier: Apache-2.0
// Pieces combined into few copies: each piece is copied once, and CUDA accepts every copy.
#include "gpu/staging/rows.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

using namespace ccoll::device;

namespace {

using Piece = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // there, here, bytes

/// In a memory with allocations of this many bytes; addresses are never dereferenced.
std::vector<Rows> rows_of(const std::vector<Piece>& pieces, std::uint64_t allocation) {
  const auto at = [](std::uint64_t place) { return reinterpret_cast<std::byte*>(place); };
  std::vector<Rows> all;
  for (const auto& [there, here, bytes] : pieces) {
    if (!all.empty() && all.back().take(at(there), at(here), bytes)) continue;
    all.push_back({.there = at(there),
                   .left = (there / allocation + 1) * allocation - there,
                   .here = at(here),
                   .bytes = bytes});
  }
  return all;
}

std::vector<Piece> pieces_of(const std::vector<Rows>& all) {
  std::vector<Piece> pieces;
  for (const Rows& rows : all)
    for (std::uint64_t i = 0; i < rows.count; i++)
      pieces.emplace_back(reinterpret_cast<std::uint64_t>(rows.there) + i * rows.pitch_there,
                          reinterpret_cast<std::uint64_t>(rows.here) + i * rows.pitch_here,
                          rows.bytes);
  return pieces;
}

}  // namespace

TEST_CASE("rows: they are the pieces, within what a copy may have", "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2'000; i++) {
    CAPTURE(seed, i);
    std::vector<Piece> pieces;
    std::uint64_t there = 1 << 20, here = 1 << 20;
    for (auto left = random() % 20; left > 0; left--) {
      const auto bytes = 64 * (1 + random() % 2);
      pieces.emplace_back(there, here, bytes);
      there += bytes + (random() % 4 == 0 ? 64 : 0);
      if (random() % 20 == 0) there += std::uint64_t{3} << 30;
      here += bytes + (random() % 8 == 0 ? 64 : 0);
    }
    constexpr std::uint64_t kAllocation = 512;
    // No piece may cross into the next allocation.
    std::erase_if(pieces, [](const Piece& piece) {
      const auto& [first, host, bytes] = piece;
      return first / kAllocation != (first + bytes - 1) / kAllocation;
    });
    const auto all = rows_of(pieces, kAllocation);
    CHECK(pieces_of(all) == pieces);
    for (const Rows& rows : all) {
      if (rows.count == 1) continue;
      const bool are_apart = rows.pitch_there >= rows.bytes && rows.pitch_here >= rows.bytes;
      CHECK(are_apart);
      CHECK(rows.pitch_there <= Rows::kMostPitch);
      CHECK((rows.count - 1) * rows.pitch_there + rows.bytes <= rows.left);
    }
  }
}

TEST_CASE("rows: equally long ones at equal distances are one copy", "[engine][unit]") {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  const auto count = [&](std::vector<Piece> pieces) { return rows_of(pieces, kFar).size(); };
  CHECK(count({{100, 1000, 10}, {300, 1020, 10}, {500, 1040, 10}, {700, 1060, 10}}) == 1);
  CHECK(count({{100, 1000, 10}, {300, 1020, 10}, {500, 1040, 11}}) == 2);
  CHECK(count({{100, 1000, 10}, {300, 1020, 10}, {501, 1040, 10}, {702, 1060, 10}}) == 2);
  CHECK(count({{100, 1000, 10}, {100 + Rows::kMostPitch, 1020, 10}}) == 1);
  CHECK(count({{100, 1000, 10}, {101 + Rows::kMostPitch, 1020, 10}}) == 2);
}
