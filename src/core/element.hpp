// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What one element of each type is and what each operation makes of several: the one definition
/// that the SIMD and CUDA kernels must equal bit by bit, and that tests and checkers compute with.
///
/// Scalar, exact and free of library calls, so that device code can share it.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ccoll/types.hpp"

#ifdef __CUDACC__
#define CCOLL_HOST_DEVICE __host__ __device__
#else
#define CCOLL_HOST_DEVICE
#endif

namespace ccoll::element {

inline constexpr std::uint16_t kNaNFloat16 = 0x7e00;
inline constexpr std::uint16_t kNaNBfloat16 = 0x7fc0;
inline constexpr std::uint32_t kNaNFloat32 = 0x7fc00000;
inline constexpr std::uint64_t kNaNFloat64 = 0x7ff8000000000000;

/// std::bit_cast, which device code may lack.
template <typename To, typename From>
CCOLL_HOST_DEVICE constexpr To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

/// `value` / 2^shift rounded to nearest, ties to even; 1 <= shift <= 31.
CCOLL_HOST_DEVICE constexpr std::uint32_t shift_right_rounded(std::uint32_t value, unsigned shift) {
  const std::uint32_t odd = (value >> shift) & 1;
  return (value + (std::uint32_t{1} << (shift - 1)) - 1 + odd) >> shift;
}

/// Exact; a NaN becomes the canonical one.
CCOLL_HOST_DEVICE constexpr float to_float32(float16 half) {
  const std::uint32_t sign = std::uint32_t{half.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (half.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = half.bits & 0x3ffu;
  if (exponent == 0x1f) return bits_as<float>(mantissa ? kNaNFloat32 : sign | 0x7f800000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return bits_as<float>(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

/// Exact; a NaN becomes the canonical one.
CCOLL_HOST_DEVICE constexpr float to_float32(bfloat16 half) {
  if ((half.bits & 0x7fffu) > 0x7f80u) return bits_as<float>(kNaNFloat32);
  return bits_as<float>(std::uint32_t{half.bits} << 16);
}

/// To nearest, ties to even; results too small for a normal number are denormal, results too big
/// infinite; a NaN becomes the canonical one.
CCOLL_HOST_DEVICE constexpr float16 to_float16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {kNaNFloat16};
  std::uint32_t half = 0;
  if (magnitude >= 0x477ff000u) {  // 65,520, half-way between the biggest finite one and 2^16
    half = 0x7c00;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal one
    half = shift_right_rounded(magnitude, 13) - ((127u - 15u) << 10);
  } else if (const unsigned shift = 126 - (magnitude >> 23); shift <= 24) {
    // In units of 2^-24, of which denormals are multiples. Longer shifts leave less than a half.
    half = shift_right_rounded((magnitude & 0x7fffffu) | 0x800000u, shift);
  }
  return {static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half)};
}

/// To nearest, ties to even; a NaN becomes the canonical one.
CCOLL_HOST_DEVICE constexpr bfloat16 to_bfloat16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {kNaNBfloat16};
  return {static_cast<std::uint16_t>(shift_right_rounded(bits, 16))};
}

template <typename T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// What elements of a type are combined in: float32 for the 16-bit floats, else the type itself.
template <typename T>
using Accumulator = std::conditional_t<is_half<T>, float, T>;

template <typename T>
CCOLL_HOST_DEVICE constexpr Accumulator<T> widen(T value) {
  if constexpr (is_half<T>) {
    return to_float32(value);
  } else {
    return value;
  }
}

/// Rounded once, where there is anything to round; a NaN becomes the canonical one of T.
template <typename T>
CCOLL_HOST_DEVICE constexpr T narrow(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, float>) {
    return value == value ? value : bits_as<float>(kNaNFloat32);
  } else if constexpr (std::is_same_v<T, double>) {
    return value == value ? value : bits_as<double>(kNaNFloat64);
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

/// -0 < +0; NaN if either is.
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

/// One step of a fold. What NaN this makes of which is not defined: `finish` settles it.
template <ReduceOp op, typename A>
CCOLL_HOST_DEVICE constexpr A fold(A a, A b) {
  if constexpr (op == ReduceOp::min) {
    return detail::lesser(a, b);
  } else if constexpr (op == ReduceOp::max) {
    return detail::greater(a, b);
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
      value = static_cast<T>(static_cast<std::int64_t>(value) / std::int64_t{divisor});
    }
  }
  return narrow<T>(value);
}

/// contributions[0] op contributions[1] op …, `count` >= 1 of them, folded from the left and
/// finished. A single contribution that nothing divides is copied as it is, a NaN included.
template <ReduceOp op, typename T>
CCOLL_HOST_DEVICE constexpr T combine(const T* contributions, std::size_t count,
                                      std::uint32_t divisor) {
  if (count == 1 && (op != ReduceOp::avg || divisor == 1)) return contributions[0];
  Accumulator<T> value = widen(contributions[0]);
  for (std::size_t i = 1; i < count; ++i) value = fold<op>(value, widen(contributions[i]));
  return finish<op, T>(value, divisor);
}

/// The same for an operation that is known only at run time.
template <typename T>
constexpr T combine(ReduceOp op, const T* contributions, std::size_t count,
                    std::uint32_t divisor = 1) {
  switch (op) {
    case ReduceOp::sum:
      return combine<ReduceOp::sum>(contributions, count, divisor);
    case ReduceOp::product:
      return combine<ReduceOp::product>(contributions, count, divisor);
    case ReduceOp::min:
      return combine<ReduceOp::min>(contributions, count, divisor);
    case ReduceOp::max:
      return combine<ReduceOp::max>(contributions, count, divisor);
    case ReduceOp::avg:
      break;
  }
  return combine<ReduceOp::avg>(contributions, count, divisor);
}

}  // namespace ccoll::element
