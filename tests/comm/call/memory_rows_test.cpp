// SPDX-License-Identifier: Apache-2.0
// Rows of memory, compared with their bytes one by one.
#include "comm/call/memory_rows.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <utility>

#include "support/effort.hpp"

namespace ccoll::test {
namespace {

std::array<std::byte, 400> rows_memory;

Rows random_rows(std::mt19937_64& random) {
  const std::uint64_t width = 1 + random() % 4;
  const auto row = random() % 5;
  const auto count = row == 0 ? 1 + random() % 10 : row * (1 + random() % 6);
  const auto stride = row + random() % 4;
  return rows_at(rows_memory.data() + random() % 120, count, width, row, stride, 0);
}

std::set<const std::byte*> bytes_of(const Rows& rows) {
  std::set<const std::byte*> bytes;
  for (const auto* row = rows.begin; row < rows.end; row += rows.stride_bytes) {
    for (std::ptrdiff_t i = 0; i < rows.row_bytes; i++) bytes.insert(row + i);
    if (rows.stride_bytes == 0) break;
  }
  return bytes;
}

bool share(const Rows& a, const Rows& b) {
  const auto others = bytes_of(b);
  return std::ranges::any_of(bytes_of(a), [&](auto* byte) { return others.contains(byte); });
}

}  // namespace

TEST_CASE("memory rows: rows that are said to be apart have no byte in common",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int apart = 0;
  for (int trial = 0; trial < testing::by_effort(2000, 20'000, 200'000); trial++) {
    const auto a = random_rows(random), b = random_rows(random);
    CAPTURE(a.begin, a.end, a.row_bytes, a.stride_bytes);
    CAPTURE(b.begin, b.end, b.row_bytes, b.stride_bytes);
    REQUIRE(*bytes_of(a).rbegin() + 1 == a.end);
    REQUIRE(are_apart(a, b) == are_apart(b, a));
    if (!are_apart(a, b)) continue;
    REQUIRE_FALSE(share(a, b));
    apart++;
  }
  CHECK(apart > 0);
}

TEST_CASE("memory rows: columns of one matrix are apart, unless they have one in common",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 2000; trial++) {
    const auto columns = 2 + random() % 10;
    const auto some = [&] {
      const auto first = random() % columns, wide = 1 + random() % (columns - first);
      const auto above = random() % 3, high = 1 + random() % 5;
      return std::pair(rows_at(rows_memory.data() + (above * columns + first) * 2, wide * high, 2,
                               wide, columns, 0),
                       std::pair(first, first + wide));
    };
    const auto [a, of_a] = some();
    const auto [b, of_b] = some();
    const bool are_others = of_a.second <= of_b.first || of_b.second <= of_a.first;
    if (are_others) REQUIRE(are_apart(a, b));
    if (share(a, b)) REQUIRE_FALSE(are_apart(a, b));
  }
}

TEST_CASE("memory rows: neighbours are those whose memory from end to end intersects",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 1000; trial++) {
    std::vector<Rows> rows(random() % 8);
    for (auto& each : rows) each = random_rows(random);
    using Pairs = std::set<std::pair<std::size_t, std::size_t>>;
    Pairs expected, seen;
    for (std::size_t i = 0; i < rows.size(); i++)
      for (std::size_t j = i + 1; j < rows.size(); j++)
        if (rows[i].begin < rows[j].end && rows[j].begin < rows[i].end) expected.emplace(i, j);
    CHECK(all_neighbours(rows, [&](std::size_t i, std::size_t j) {
      return seen.emplace(std::min(i, j), std::max(i, j)).second;
    }));
    CHECK(seen == expected);
    const bool holds = all_neighbours(rows, [](std::size_t, std::size_t) { return false; });
    CHECK(holds == expected.empty());
  }
}

}  // namespace ccoll::test
