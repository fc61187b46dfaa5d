// SPDX-License-Identifier: Apache-2.0
#include "core/crc32c.hpp"

#include <catch2/catch.hpp>
#include <random>

namespace ccoll {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The definition: long division of the bits, lowest first, by Castagnoli's polynomial.
std::uint32_t by_division(const Bytes& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

Bytes random_bytes(std::mt19937& random) {
  // Includes lengths around the stretches that are summed in parallel.
  const std::size_t most[] = {1, 9, 200, 3'100, 20'000};
  Bytes bytes(random() % most[random() % 5] + (random() % 3 == 0 ? 3'072 : 0));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

}  // namespace

TEST_CASE("crc32c: RFC 3720's examples", "[core][unit]") {
  Bytes up, down;
  for (std::uint8_t i = 0; i < 32; i++) {
    up.push_back(i);
    down.insert(down.begin(), i);
  }
  const Bytes read_command = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0,    0, 0, 0, 0,
                              0x14, 0,    0, 0, 0, 0, 4, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                              0x28, 0,    0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  for (const auto& way : detail::crc32c_methods()) {
    CAPTURE(way.name);
    const auto of = [&](const Bytes& bytes) { return way.compute(0, bytes.data(), bytes.size()); };
    CHECK(of(Bytes(32, 0x00)) == 0x8a9136aa);
    CHECK(of(Bytes(32, 0xff)) == 0x62a8ab43);
    CHECK(of(up) == 0x46dd794e);
    CHECK(of(down) == 0x113fdb5c);
    CHECK(of(read_command) == 0xd9963a56);
    CHECK(of({}) == 0);
  }
}

TEST_CASE("crc32c: every way is the definition, however the bytes are cut and lie",
          "[core][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int draw = 0; draw < 300; draw++) {
    const auto bytes = random_bytes(random);
    const auto expected = by_division(bytes);
    for (const auto& way : detail::crc32c_methods()) {
      CAPTURE(seed, draw, way.name, bytes.size());
      std::uint32_t crc = 0;
      for (std::size_t at = 0; at < bytes.size();) {
        const auto part = 1 + random() % (bytes.size() - at);
        crc = way.compute(crc, bytes.data() + at, part);
        at += part;
      }
      REQUIRE(crc == expected);
    }
    REQUIRE(crc32c(0, bytes.data(), bytes.size()) == expected);
  }
}

}  // namespace ccoll
