// SPDX-License-Identifier: Apache-2.0

/// Conversions of 16-bit floats against oracles that share nothing with them, and the rules of
/// the operations on the values where they matter.

#include "core/element.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace ccoll {
namespace {

using element::bits_as;

/// The value that the fields of a binary format say, by double arithmetic.
double value_of(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1u << mantissa_bits) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa_bits)) & 1;
  double magnitude = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

/// `value` rounded to a format by double arithmetic, whose nearbyint rounds ties to even.
double rounded(double value, int exponent_bits, int mantissa_bits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, mantissa_bits - exponent)),
                                   exponent - mantissa_bits);
  const double most = std::ldexp(2 - std::ldexp(1.0, -mantissa_bits), bias);
  return std::abs(result) > most ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                 : result;
}

bool same_number(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

template <typename T>
struct Fields;
template <>
struct Fields<float16> {
  static constexpr int kExponent = 5;
  static constexpr int kMantissa = 10;
  static constexpr std::uint16_t kNaN = 0x7e00;
};
template <>
struct Fields<bfloat16> {
  static constexpr int kExponent = 8;
  static constexpr int kMantissa = 7;
  static constexpr std::uint16_t kNaN = 0x7fc0;
};

/// Whether narrowing `value` gives what the oracle does.
template <typename T>
bool narrows_rightly(float value) {
  const T half = element::narrow<T>(value);
  if (std::isnan(value)) return half.bits == Fields<T>::kNaN;
  const double expected = rounded(value, Fields<T>::kExponent, Fields<T>::kMantissa);
  return same_number(value_of(half.bits, Fields<T>::kExponent, Fields<T>::kMantissa), expected);
}

template <typename T>
T combine_pair(ReduceOp op, T a, T b, std::uint32_t divisor = 1) {
  const std::array pair = {a, b};
  return element::combine(op, pair.data(), pair.size(), divisor);
}

}  // namespace

TEMPLATE_TEST_CASE("all 65,536 values of a 16-bit float survive float32 and back", "[core]",
                   float16, bfloat16) {
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TestType half{static_cast<std::uint16_t>(bits)};
    const float wide = element::widen(half);
    const double expected =
        value_of(bits, Fields<TestType>::kExponent, Fields<TestType>::kMantissa);
    if (std::isnan(expected)) {
      wrong += bits_as<std::uint32_t>(wide) != element::kNaNFloat32;
      wrong += element::narrow<TestType>(wide).bits != Fields<TestType>::kNaN;
    } else {
      wrong += !same_number(wide, expected);
      wrong += element::narrow<TestType>(wide) != half;
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("float32 rounds to the nearest 16-bit float, ties to even", "[core]", float16,
                   bfloat16) {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::size_t wrong = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    wrong += !narrows_rightly<TestType>(bits_as<float>(static_cast<std::uint32_t>(random())));
    // Magnitudes of float16's range, denormals and overflow included.
    const auto exponent = static_cast<std::uint32_t>(100 + random() % 45);
    const auto bits = static_cast<std::uint32_t>(random() & 0x807fffffu) | exponent << 23;
    wrong += !narrows_rightly<TestType>(bits_as<float>(bits));
  }
  // Half-way points and the floats beside them.
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TestType half{static_cast<std::uint16_t>(bits)};
    const TestType next{static_cast<std::uint16_t>(bits + 1)};
    const float middle = (element::widen(half) / 2) + (element::widen(next) / 2);
    for (const float value :
         {middle, std::nextafter(middle, HUGE_VALF), std::nextafter(middle, -HUGE_VALF)}) {
      wrong += !narrows_rightly<TestType>(value);
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("min and max order the zeros and NaN wins", "[core]", float, double) {
  const TestType zero = 0;
  const TestType nan = -std::numeric_limits<TestType>::quiet_NaN();
  for (const bool swapped : {false, true}) {
    const TestType a = swapped ? zero : -zero;
    CHECK(std::signbit(combine_pair(ReduceOp::min, a, -a)));
    CHECK_FALSE(std::signbit(combine_pair(ReduceOp::max, a, -a)));
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    using Bits = std::conditional_t<sizeof(TestType) == 4, std::uint32_t, std::uint64_t>;
    const Bits canonical = bits_as<Bits>(std::numeric_limits<TestType>::quiet_NaN());
    CHECK(bits_as<Bits>(combine_pair<TestType>(op, nan, 1)) == canonical);
    CHECK(bits_as<Bits>(combine_pair<TestType>(op, 1, nan)) == canonical);
  }
}

TEST_CASE("integers wrap, and averages round towards zero after the sum has wrapped", "[core]") {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  constexpr auto kLeast64 = std::numeric_limits<std::int64_t>::min();
  CHECK(combine_pair<std::int32_t>(ReduceOp::sum, kMost, 1) == -kMost - 1);
  CHECK(combine_pair<std::int32_t>(ReduceOp::product, 65536, 65536) == 0);
  CHECK(combine_pair<std::int64_t>(ReduceOp::sum, kLeast64, -1) ==
        std::numeric_limits<std::int64_t>::max());
  CHECK(combine_pair<std::uint8_t>(ReduceOp::product, 255, 255) == 1);
  CHECK(combine_pair<std::uint8_t>(ReduceOp::avg, 200, 100, 2) == 22);
  CHECK(combine_pair<std::int32_t>(ReduceOp::avg, -3, -4, 2) == -3);
  CHECK(combine_pair<std::int64_t>(ReduceOp::avg, 3, 4, 2) == 3);
}

TEST_CASE("16-bit floats are rounded once, after the division", "[core]") {
  // 2048 + 1 + 1 is lost in float16 but not in float32.
  const std::array values = {float16{0x6800}, float16{0x3c00}, float16{0x3c00}};
  CHECK(element::combine(ReduceOp::sum, values.data(), 3).bits == 0x6801);
  // 65504 + 65504 is infinite in float16; their average is not.
  CHECK(combine_pair(ReduceOp::avg, float16{0x7bff}, float16{0x7bff}, 2).bits == 0x7bff);
}

TEST_CASE("a single contribution that nothing divides is copied bit by bit", "[core]") {
  const float16 signalling{0xfc01};
  CHECK(element::combine(ReduceOp::sum, &signalling, 1) == signalling);
  CHECK(element::combine(ReduceOp::avg, &signalling, 1, 2).bits == element::kNaNFloat16);
}

}  // namespace ccoll
