// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The definition of one element of each type, and of each operation on several. SIMD and CUDA
/// kernels must equal it bit by bit, and tests and checkers compute with it.
///
/// It is scalar, exact and free of library calls, so that device code can share it.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ccoll/types.hpp"
#include "core/host_device.hpp"

namespace ccoll::element {

inline constexpr std::uint32_t kNaNFloat32 = 0x7fc00000;
inline constexpr std::uint64_t kNaNFloat64 = 0x7ff8000000000000;

/// A bool as storage: a buffer may hold any byte, which C++'s own type does not allow.
struct Bool {
  std::uint8_t byte = 0;
  friend bool operator==(Bool, Bool) = default;
};

/// `value` / 2^shift rounded to nearest, ties to even; 1 <= shift <= 31.
CCOLL_HOST_DEVICE constexpr std::uint32_t shift_right_rounded(std::uint32_t value, unsigned shift) {
  const std::uint32_t odd = (value >> shift) & 1;
  return (value + (std::uint32_t{1} << (shift - 1)) - 1 + odd) >> shift;
}

/// Layout of a floating-point format of 8 or 16 bits: sign, exponent, mantissa. A format without
/// infinities has a single NaN of either sign, with all other bits set.
template <unsigned exponent_bits, unsigned mantissa_bits, bool has_infinity,
          std::uint32_t canonical>
struct Layout {
  static constexpr unsigned kBits = 1 + exponent_bits + mantissa_bits;
  static constexpr unsigned kMantissaBits = mantissa_bits;
  static constexpr std::uint32_t kSign = 1u << (kBits - 1);
  static constexpr unsigned kBias = (1u << (exponent_bits - 1)) - 1;
  static constexpr bool kHasInfinity = has_infinity;
  static constexpr std::uint32_t kNaN = canonical;
  static constexpr std::uint32_t kInfinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  /// The biggest number.
  static constexpr std::uint32_t kMost = has_infinity ? kInfinity - 1 : kSign - 2;
  /// The biggest magnitude that is not a NaN.
  static constexpr std::uint32_t kMostOrdered = has_infinity ? kInfinity : kMost;
  /// The result for numbers that are too large; an infinity keeps the sign.
  static constexpr std::uint32_t kOverflow = has_infinity ? kInfinity : kNaN;
  /// The number of bits by which float32's mantissa is longer.
  static constexpr unsigned kShift = 23 - mantissa_bits;
  /// The difference between the exponents of float32 and this format, in float32's exponent bits.
  static constexpr std::uint32_t kRebias = (127 - kBias) << 23;
};

template <typename T>
struct LayoutOf;
template <>
struct LayoutOf<float16> : Layout<5, 10, true, 0x7e00> {};
template <>
struct LayoutOf<bfloat16> : Layout<8, 7, true, 0x7fc0> {};
template <>
struct LayoutOf<float8_e4m3> : Layout<4, 3, false, 0x7f> {};
/// There are several quiet NaNs; this is the one that CUDA and torch make.
template <>
struct LayoutOf<float8_e5m2> : Layout<5, 2, true, 0x7f> {};

template <typename T>
inline constexpr bool is_small_float =
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float8_e4m3> ||
    std::is_same_v<T, float8_e5m2>;

/// Converts exactly; a NaN becomes the canonical one.
template <typename T>
CCOLL_HOST_DEVICE constexpr float to_float32(T small) {
  using L = LayoutOf<T>;
  const std::uint32_t magnitude = small.bits & (L::kSign - 1);
  const std::uint32_t sign = (small.bits & L::kSign) << (32 - L::kBits);
  if (magnitude > L::kMostOrdered) return bits_as<float>(kNaNFloat32);
  if (magnitude > L::kMost) return bits_as<float>(sign | 0x7f800000u);
  if (magnitude >> L::kMantissaBits == 0) {
    // Exact: the smallest normal number with the denormal's bits below it, minus that number.
    constexpr std::uint32_t kNormal = ((128 - L::kBias) << 23);
    const float number =
        bits_as<float>(kNormal + (magnitude << L::kShift)) - bits_as<float>(kNormal);
    return bits_as<float>(sign | bits_as<std::uint32_t>(number));
  }
  return bits_as<float>(sign | (L::kRebias + (magnitude << L::kShift)));
}

/// bfloat16 is the upper half of a float32, denormals included.
CCOLL_HOST_DEVICE constexpr float to_float32(bfloat16 half) {
  if ((half.bits & 0x7fffu) > 0x7f80u) return bits_as<float>(kNaNFloat32);
  return bits_as<float>(std::uint32_t{half.bits} << 16);
}

/// Rounds to nearest, ties to even. Results too small for a normal number are denormal, those too
/// large are Layout::kOverflow; a NaN becomes the canonical one.
template <typename T>
CCOLL_HOST_DEVICE constexpr T from_float32(float value) {
  using L = LayoutOf<T>;
  using Stored = decltype(T::bits);
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = bits >> (32 - L::kBits) & L::kSign;
  if (magnitude > 0x7f800000u) return {static_cast<Stored>(L::kNaN)};
  // The last bit of this number is the smallest denormal, so adding it rounds to that.
  constexpr std::uint32_t kRounder = L::kRebias + ((L::kShift + 1) << 23);
  const float rounded = bits_as<float>(magnitude) + bits_as<float>(kRounder);
  const bool is_denormal = magnitude < L::kRebias + (1u << 23);
  const std::uint32_t small = is_denormal ? bits_as<std::uint32_t>(rounded) - kRounder
                                          : shift_right_rounded(magnitude - L::kRebias, L::kShift);
  if (small > L::kMost) {
    return {static_cast<Stored>(L::kHasInfinity ? sign | L::kOverflow : L::kOverflow)};
  }
  return {static_cast<Stored>(sign | small)};
}

template <>
CCOLL_HOST_DEVICE constexpr bfloat16 from_float32<bfloat16>(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {LayoutOf<bfloat16>::kNaN};
  return {static_cast<std::uint16_t>(shift_right_rounded(bits, 16))};
}

/// The type in which elements are combined: float32 for the smaller floats, else the type itself.
template <typename T>
using Accumulator = std::conditional_t<is_small_float<T>, float,
                                       std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;

template <typename T>
CCOLL_HOST_DEVICE constexpr Accumulator<T> widen(T value) {
  if constexpr (is_small_float<T>) {
    return to_float32(value);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return value.byte != 0;
  } else {
    return value;
  }
}

/// Rounds once, if anything must be rounded; a NaN becomes the canonical one of T.
template <typename T>
CCOLL_HOST_DEVICE constexpr T narrow(Accumulator<T> value) {
  if constexpr (is_small_float<T>) {
    return from_float32<T>(value);
  } else if constexpr (std::is_same_v<T, float>) {
    return value == value ? value : bits_as<float>(kNaNFloat32);
  } else if constexpr (std::is_same_v<T, double>) {
    return value == value ? value : bits_as<double>(kNaNFloat64);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(value)};
  } else {
    return value;
  }
}

namespace detail {

template <typename A>
CCOLL_HOST_DEVICE constexpr bool has_sign_bit(A value) {
  if constexpr (sizeof(A) == 4) {
    return (bits_as<std::uint32_t>(value) >> 31) != 0;
  } else {
    return (bits_as<std::uint64_t>(value) >> 63) != 0;
  }
}

/// The smaller one, with -0 < +0; NaN if either is.
template <typename A>
CCOLL_HOST_DEVICE constexpr A lesser(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return has_sign_bit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <typename A>
CCOLL_HOST_DEVICE constexpr A greater(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return has_sign_bit(a) ? b : a;
  }
  return a < b ? b : a;
}

}  // namespace detail

/// One step of a fold. If it makes a NaN, its bits are undefined: `finish` sets them.
template <ReduceOp op, typename A>
CCOLL_HOST_DEVICE constexpr A fold(A a, A b) {
  constexpr bool is_bool = std::is_same_v<A, bool>;
  if constexpr (op == ReduceOp::min) {
    return detail::lesser(a, b);
  } else if constexpr (op == ReduceOp::max) {
    return detail::greater(a, b);
  } else if constexpr (op == ReduceOp::bit_and || (is_bool && op == ReduceOp::product)) {
    return static_cast<A>(a & b);
  } else if constexpr (op == ReduceOp::bit_or || (is_bool && op == ReduceOp::sum)) {
    return static_cast<A>(a | b);
  } else if constexpr (op == ReduceOp::bit_xor) {
    return static_cast<A>(a ^ b);
  } else if constexpr (std::is_floating_point_v<A>) {
    return op == ReduceOp::product ? a * b : a + b;
  } else {
    // 64 bits hold every product without promotion to int, whose overflow is undefined.
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<A>(op == ReduceOp::product ? x * y : x + y);
  }
}

/// The end of a fold: divides an `avg`, then rounds.
template <ReduceOp op, typename T>
CCOLL_HOST_DEVICE constexpr T finish(Accumulator<T> value, std::uint32_t divisor) {
  if constexpr (op == ReduceOp::avg) {
    if constexpr (std::is_floating_point_v<Accumulator<T>>) {
      value = value / static_cast<Accumulator<T>>(divisor);
    } else {
      // Wide enough for any divisor, and signed where T is.
      using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      value = static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
    }
  }
  return narrow<T>(value);
}

/// The factor for each rank's own contribution in a pre-multiplied sum: `real` for floats, `whole`,
/// modulo 2^bits, for integers.
struct Factor {
  double real = 1;
  std::uint64_t whole = 1;
};

template <typename T>
CCOLL_HOST_DEVICE constexpr Accumulator<T> factor_for(const Factor& factor) {
  if constexpr (std::is_floating_point_v<Accumulator<T>>) {
    return static_cast<Accumulator<T>>(factor.real);
  } else {
    return static_cast<Accumulator<T>>(factor.whole);
  }
}

/// One element's share in a pre-multiplied sum, rounded once before any other rank sees it.
template <typename T>
CCOLL_HOST_DEVICE constexpr T scale(T value, const Factor& factor) {
  return narrow<T>(fold<ReduceOp::product>(widen(value), factor_for<T>(factor)));
}

/// contributions[0] op contributions[1] op …, `count` >= 1 of them, folded from the left and
/// finished. A single contribution without a division is copied unchanged, even a NaN.
template <ReduceOp op, typename T>
CCOLL_HOST_DEVICE constexpr T combine(const T* contributions, std::size_t count,
                                      std::uint32_t divisor) {
  if (count == 1 && (op != ReduceOp::avg || divisor == 1)) return contributions[0];
  Accumulator<T> value = widen(contributions[0]);
  for (std::size_t i = 1; i < count; ++i) value = fold<op>(value, widen(contributions[i]));
  return finish<op, T>(value, divisor);
}

/// Calls `f` with the operation as a type, an integral_constant.
template <typename F>
constexpr decltype(auto) with_op(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::sum:
      return f(std::integral_constant<ReduceOp, ReduceOp::sum>{});
    case ReduceOp::product:
      return f(std::integral_constant<ReduceOp, ReduceOp::product>{});
    case ReduceOp::min:
      return f(std::integral_constant<ReduceOp, ReduceOp::min>{});
    case ReduceOp::max:
      return f(std::integral_constant<ReduceOp, ReduceOp::max>{});
    case ReduceOp::avg:
      return f(std::integral_constant<ReduceOp, ReduceOp::avg>{});
    case ReduceOp::bit_and:
      return f(std::integral_constant<ReduceOp, ReduceOp::bit_and>{});
    case ReduceOp::bit_or:
      return f(std::integral_constant<ReduceOp, ReduceOp::bit_or>{});
    case ReduceOp::bit_xor:
      break;
  }
  return f(std::integral_constant<ReduceOp, ReduceOp::bit_xor>{});
}

/// Calls `f` with an element of the C++ type that `type` names.
template <typename F>
constexpr decltype(auto) with_type(DataType type, F&& f) {
  switch (type) {
    case DataType::int8:
      return f(std::int8_t{});
    case DataType::uint8:
      return f(std::uint8_t{});
    case DataType::int16:
      return f(std::int16_t{});
    case DataType::uint16:
      return f(std::uint16_t{});
    case DataType::int32:
      return f(std::int32_t{});
    case DataType::uint32:
      return f(std::uint32_t{});
    case DataType::int64:
      return f(std::int64_t{});
    case DataType::uint64:
      return f(std::uint64_t{});
    case DataType::float16:
      return f(float16{});
    case DataType::bfloat16:
      return f(bfloat16{});
    case DataType::float32:
      return f(float{});
    case DataType::float64:
      return f(double{});
    case DataType::float8_e4m3:
      return f(float8_e4m3{});
    case DataType::float8_e5m2:
      return f(float8_e5m2{});
    case DataType::boolean:
      break;
  }
  return f(Bool{});
}

}  // namespace ccoll::element

template <>
struct ccoll::detail::DataTypeOf<ccoll::element::Bool>
    : std::integral_constant<ccoll::DataType, ccoll::DataType::boolean> {};

namespace ccoll::element {

/// `combine` for an operation that is known only at run time and is_defined for T.
template <typename T>
constexpr T combine(ReduceOp op, const T* contributions, std::size_t count,
                    std::uint32_t divisor = 1) {
  return with_op(op, [&](auto constant) -> T {
    if constexpr (is_defined(constant, data_type_of<T>)) {
      return combine<constant>(contributions, count, divisor);
    } else {
      return contributions[0];
    }
  });
}

}  // namespace ccoll::element
