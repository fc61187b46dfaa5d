// SPDX-License-Identifier: Apache-2.0
#include "core/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ccoll {
namespace {

/// Castagnoli's polynomial; its lowest bit stands for the highest power.
constexpr std::uint32_t kPolynomial = 0x82f63b78;

/// For each byte of a sum: the sum's value after some more bytes.
using Table = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr std::uint32_t after_zero_bit(std::uint32_t crc) {
  return (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
}

/// [k][b]: the sum of byte b with k zero bytes after it, so four bytes can be looked up at once.
constexpr Table make_bytes() {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; byte++) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = after_zero_bit(crc);
    table[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 4; k++)
    for (std::size_t byte = 0; byte < 256; byte++) {
      const auto crc = table[k - 1][byte];
      table[k][byte] = (crc >> 8) ^ table[0][crc & 0xff];
    }
  return table;
}
constexpr Table kBytes = make_bytes();

/// The same number in the other bit order is little-endian, as this code reads it.
static_assert(std::endian::native == std::endian::little);

template <typename Word>
Word load(const std::byte* data) {
  Word word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

std::uint32_t by_table(std::uint32_t before, const void* from, std::size_t bytes) {
  const auto* data = static_cast<const std::byte*>(from);
  std::uint32_t crc = ~before;
  for (; bytes >= 4; bytes -= 4, data += 4) {
    crc ^= load<std::uint32_t>(data);
    crc = kBytes[3][crc & 0xff] ^ kBytes[2][crc >> 8 & 0xff] ^ kBytes[1][crc >> 16 & 0xff] ^
          kBytes[0][crc >> 24];
  }
  for (; bytes > 0; bytes--, data++)
    crc = (crc >> 8) ^ kBytes[0][(crc ^ std::to_integer<std::uint32_t>(*data)) & 0xff];
  return ~crc;
}

#if defined(__x86_64__) || defined(__aarch64__)

/// The instruction takes three cycles, but one can begin in each cycle. So three stretches of
/// kStretch bytes are summed side by side; a table of what zeros do to a sum joins their sums.
constexpr std::size_t kStretch = 1024;

/// [k][b]: the sum after kStretch zero bytes, if byte k of it is b. Sums add up by xor, so it
/// suffices to compute it for single bits.
constexpr Table make_stretch() {
  Table table{};
  for (std::uint32_t bit = 0; bit < 32; bit++) {
    std::uint32_t crc = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kStretch; i++) crc = (crc >> 8) ^ kBytes[0][crc & 0xff];
    auto& column = table[bit / 8];
    for (std::size_t byte = 0; byte < 256; byte++)
      if ((byte >> bit % 8 & 1) != 0) column[byte] ^= crc;
  }
  return table;
}
constexpr Table kAfterStretch = make_stretch();

std::uint32_t after_stretch(std::uint32_t crc) {
  return kAfterStretch[0][crc & 0xff] ^ kAfterStretch[1][crc >> 8 & 0xff] ^
         kAfterStretch[2][crc >> 16 & 0xff] ^ kAfterStretch[3][crc >> 24];
}

#if defined(__x86_64__)
#define CCOLL_HAS_CRC __attribute__((target("sse4.2")))
CCOLL_HAS_CRC inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}
CCOLL_HAS_CRC inline std::uint32_t step(std::uint32_t crc, std::uint8_t byte) {
  return _mm_crc32_u8(crc, byte);
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
constexpr std::string_view kInstruction = "sse4.2";
#else
#if defined(__clang__)
#define CCOLL_HAS_CRC __attribute__((target("crc")))
#else
#define CCOLL_HAS_CRC __attribute__((target("+crc")))
#endif
CCOLL_HAS_CRC inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) {
  return __crc32cd(crc, word);
}
CCOLL_HAS_CRC inline std::uint32_t step(std::uint32_t crc, std::uint8_t byte) {
  return __crc32cb(crc, byte);
}
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
constexpr std::string_view kInstruction = "armv8";
#endif

CCOLL_HAS_CRC std::uint32_t by_instruction(std::uint32_t before, const void* from,
                                           std::size_t bytes) {
  const auto* data = static_cast<const std::byte*>(from);
  std::uint32_t crc = ~before;
  for (; bytes >= 3 * kStretch; bytes -= 3 * kStretch, data += 3 * kStretch) {
    std::uint32_t second = 0, third = 0;
    for (std::size_t at = 0; at < kStretch; at += sizeof(std::uint64_t)) {
      crc = step(crc, load<std::uint64_t>(data + at));
      second = step(second, load<std::uint64_t>(data + kStretch + at));
      third = step(third, load<std::uint64_t>(data + 2 * kStretch + at));
    }
    crc = after_stretch(after_stretch(crc) ^ second) ^ third;
  }
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t)) {
    crc = step(crc, load<std::uint64_t>(data));
    data += sizeof(std::uint64_t);
  }
  for (; bytes > 0; bytes--, data++) crc = step(crc, load<std::uint8_t>(data));
  return ~crc;
}

#endif

}  // namespace

std::vector<detail::Crc32cMethod> detail::crc32c_methods() {
  std::vector<Crc32cMethod> ways{{"table", by_table}};
#if defined(__x86_64__) || defined(__aarch64__)
  if (has_instruction()) ways.push_back({kInstruction, by_instruction});
#endif
  return ways;
}

std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes) {
  static const auto best = detail::crc32c_methods().back().compute;
  return best(before, data, bytes);
}

}  // namespace ccoll
