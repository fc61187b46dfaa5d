// SPDX-License-Identifier: Apache-2.0

/// Conversions of small floats against independent oracles, and the rules of the operations at
/// critical values.

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

static_assert(data_type_of<long> == DataType::int64);
static_assert(data_type_of<long long> == DataType::int64);
static_assert(data_type_of<unsigned long> == DataType::uint64);
static_assert(data_type_of<unsigned long long> == DataType::uint64);

/// A format as its standard describes it: the sizes of its fields, its canonical NaN, and whether
/// the largest exponent is reserved for infinities and NaNs.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  std::uint32_t nan;
  bool ieee;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t patterns() const { return 2u << (exponent_bits + mantissa_bits); }
};

template <typename T>
Format format_of() {
  if constexpr (std::is_same_v<T, float16>) return {5, 10, 0x7e00, true};
  if constexpr (std::is_same_v<T, bfloat16>) return {8, 7, 0x7fc0, true};
  if constexpr (std::is_same_v<T, float8_e4m3>) return {4, 3, 0x7f, false};
  if constexpr (std::is_same_v<T, float8_e5m2>) return {5, 2, 0x7f, true};
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The value of a binary format's fields, computed in double.
double value_of(std::uint32_t bits, const Format& format) {
  const auto fraction = bits & ((1u << format.mantissa_bits) - 1);
  const auto exponents = (1u << format.exponent_bits) - 1;
  const auto exponent = bits >> format.mantissa_bits & exponents;
  const auto scale =
      static_cast<int>(std::max(exponent, 1u)) - format.bias() - format.mantissa_bits;
  const auto implicit = exponent == 0 ? 0u : 1u << format.mantissa_bits;
  double magnitude = std::ldexp(fraction + implicit, scale);
  if (exponent == exponents && format.ieee) magnitude = fraction == 0 ? kInfinity : kNaN;
  if ((bits & (format.patterns() / 2 - 1)) == format.patterns() / 2 - 1) magnitude = kNaN;
  return bits >= format.patterns() / 2 ? -magnitude : magnitude;
}

/// `value` rounded to a format in double arithmetic, whose nearbyint rounds ties to even.
double rounded(double value, const Format& format) {
  const double overflow = format.ieee ? std::copysign(kInfinity, value) : kNaN;
  if (std::isinf(value)) return overflow;
  if (value == 0 || std::isnan(value)) return value;
  const int exponent = std::max(std::ilogb(value), 1 - format.bias());
  const int last = exponent - format.mantissa_bits;
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  const double most =
      format.ieee ? std::ldexp(2 - std::ldexp(1.0, -format.mantissa_bits), format.bias()) : 448;
  return std::abs(result) > most ? overflow : result;
}

bool same_number(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

/// Whether narrowing `value` gives the oracle's result.
template <typename T>
bool narrows_rightly(float value) {
  const T small = element::narrow<T>(value);
  const double expected = rounded(value, format_of<T>());
  if (std::isnan(expected)) return small.bits == format_of<T>().nan;
  return same_number(value_of(small.bits, format_of<T>()), expected);
}

template <typename T>
T combine_pair(ReduceOp op, T a, T b, std::uint32_t divisor = 1) {
  const std::array pair = {a, b};
  return element::combine(op, pair.data(), pair.size(), divisor);
}

}  // namespace

TEMPLATE_TEST_CASE("all values of a small float survive float32 and back", "[core]", float16,
                   bfloat16, float8_e4m3, float8_e5m2) {
  const Format format = format_of<TestType>();
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < format.patterns(); ++bits) {
    const TestType small{static_cast<decltype(TestType::bits)>(bits)};
    const float wide = element::widen(small);
    const double expected = value_of(bits, format);
    if (std::isnan(expected)) {
      wrong += bits_as<std::uint32_t>(wide) != element::kNaNFloat32;
      wrong += element::narrow<TestType>(wide).bits != format.nan;
    } else {
      wrong += !same_number(wide, expected);
      wrong += element::narrow<TestType>(wide) != small;
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("float32 rounds to the nearest small float, ties to even", "[core]", float16,
                   bfloat16, float8_e4m3, float8_e5m2) {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::size_t wrong = 0;
  for (int i = 0; i < 500'000; ++i) {
    wrong += !narrows_rightly<TestType>(bits_as<float>(static_cast<std::uint32_t>(random())));
    // Magnitudes of the smaller ranges, including denormals and overflow.
    const auto exponent = static_cast<std::uint32_t>(100 + random() % 45);
    const auto bits = static_cast<std::uint32_t>(random() & 0x807fffffu) | exponent << 23;
    wrong += !narrows_rightly<TestType>(bits_as<float>(bits));
  }
  // Half-way points and the floats next to them.
  for (std::uint32_t bits = 0; bits < format_of<TestType>().patterns(); ++bits) {
    using Stored = decltype(TestType::bits);
    const TestType small{static_cast<Stored>(bits)};
    const TestType next{static_cast<Stored>(bits + 1)};
    const float middle = (element::widen(small) / 2) + (element::widen(next) / 2);
    for (const float value :
         {middle, std::nextafter(middle, HUGE_VALF), std::nextafter(middle, -HUGE_VALF)}) {
      wrong += !narrows_rightly<TestType>(value);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("what is too big for float8 is infinite, or NaN where there is no infinity", "[core]") {
  // 464 is half-way between 448, the largest, and the next value; the tie goes to 448.
  CHECK(element::narrow<float8_e4m3>(464.0f).bits == 0x7e);
  CHECK(element::narrow<float8_e4m3>(-464.0f).bits == 0xfe);
  CHECK(element::narrow<float8_e4m3>(465.0f).bits == 0x7f);
  CHECK(element::narrow<float8_e4m3>(-HUGE_VALF).bits == 0x7f);
  CHECK(element::narrow<float8_e5m2>(61439.0f).bits == 0x7b);
  CHECK(element::narrow<float8_e5m2>(61440.0f).bits == 0x7c);
  CHECK(element::narrow<float8_e5m2>(-1e9f).bits == 0xfc);
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
  CHECK(combine_pair<std::uint64_t>(ReduceOp::avg, ~std::uint64_t{0}, 0, 2) ==
        ~std::uint64_t{0} / 2);
  CHECK(combine_pair<std::int8_t>(ReduceOp::avg, 100, 100, 2) == -28);
  CHECK(combine_pair<std::uint16_t>(ReduceOp::product, 65535, 65535) == 1);
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
  CHECK(element::combine(ReduceOp::avg, &signalling, 1, 2).bits == 0x7e00);
}

TEST_CASE("any byte but 0 is true, and combined bools are 0 or 1", "[core]") {
  using element::Bool;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or}) {
    CHECK(combine_pair(op, Bool{0}, Bool{0x80}) == Bool{1});
    CHECK(combine_pair(op, Bool{0}, Bool{0}) == Bool{0});
  }
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and}) {
    CHECK(combine_pair(op, Bool{1}, Bool{2}) == Bool{1});
    CHECK(combine_pair(op, Bool{0xff}, Bool{0}) == Bool{0});
  }
  CHECK(combine_pair(ReduceOp::bit_xor, Bool{1}, Bool{2}) == Bool{0});
  CHECK(combine_pair(ReduceOp::bit_xor, Bool{0}, Bool{2}) == Bool{1});
}

TEST_CASE("a scaled contribution is rounded once, integers wrap", "[core]") {
  using element::Factor;
  CHECK(element::scale(float16{0x3c00}, Factor{0.1, 0}).bits == 0x2e66);
  CHECK(element::scale(float8_e4m3{0x7e}, Factor{2, 0}).bits == 0x7f);
  CHECK(element::scale(1.0f, Factor{0.1, 0}) == 0.1f);
  CHECK(element::scale(1.0, Factor{0.1, 0}) == 0.1);
  CHECK(element::scale(std::int8_t{100}, Factor{0, static_cast<std::uint64_t>(-3)}) == -44);
}

TEST_CASE("bits belong to integers and bools, averages to all but bools", "[core]") {
  int defined = 0;
  for (const DataType type : kDataTypes) {
    for (const ReduceOp op : kReduceOps) defined += is_defined(op, type);
  }
  CHECK(defined == 8 * 8 + 6 * 5 + 7);
  CHECK_FALSE(is_defined(ReduceOp::bit_and, DataType::float8_e4m3));
  CHECK_FALSE(is_defined(ReduceOp::avg, DataType::boolean));
}

}  // namespace ccoll
