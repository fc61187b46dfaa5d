// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The families of types and operations, each with a kernel of its own, and the choice of a fold
/// within one. Knows nothing of memory.

#include <cstdint>
#include <type_traits>

#include "kernels/device/elements.hpp"

namespace ccoll::device {

/// The kernel that serves a type and operation: each family is compiled by itself.
enum class Family : std::uint8_t { bits, integers, floats, small_floats };

/// Bits know no type but bool.
CCOLL_HOST_DEVICE constexpr Family family_of(DataType type, ReduceOp op) {
  if (op >= ReduceOp::bit_and || type == DataType::boolean) return Family::bits;
  if (type == DataType::float32 || type == DataType::float64) return Family::floats;
  return type <= DataType::uint64 ? Family::integers : Family::small_floats;
}

namespace detail {

// These choose the fold for a type and operation: `fold.run<T>(Op)` is called with both.

/// For integers, whatever their size.
template <class Fold>
CCOLL_HOST_DEVICE void with_bits(ReduceOp op, const Fold& fold) {
  switch (op) {
    case ReduceOp::bit_and:
      return fold.template run<std::uint8_t>(Fixed<ReduceOp::bit_and>());
    case ReduceOp::bit_or:
      return fold.template run<std::uint8_t>(Fixed<ReduceOp::bit_or>());
    default:
      return fold.template run<std::uint8_t>(Fixed<ReduceOp::bit_xor>());
  }
}

/// For bools, sum and max are or, product and min are and.
template <class Fold>
CCOLL_HOST_DEVICE void with_bools(ReduceOp op, const Fold& fold) {
  switch (op) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::bit_and:
      return fold.template run<element::Bool>(Fixed<ReduceOp::bit_and>());
    case ReduceOp::bit_xor:
      return fold.template run<element::Bool>(Fixed<ReduceOp::bit_xor>());
    default:
      return fold.template run<element::Bool>(Fixed<ReduceOp::bit_or>());
  }
}

/// For sum, product, min, max and avg. A sum is an average that nothing divides yet, and products
/// of integers do not depend on the sign.
template <typename T, class Fold>
CCOLL_HOST_DEVICE void with_numbers(ReduceOp op, std::uint32_t divisor, const Fold& fold) {
  using Unsigned = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                               std::type_identity<T>>::type;
  if constexpr (sizeof(T) <= 2) return fold.template run<T>(Chosen{op});
  switch (op) {
    case ReduceOp::product:
      return fold.template run<Unsigned>(Fixed<ReduceOp::product>());
    case ReduceOp::min:
      return fold.template run<T>(Fixed<ReduceOp::min>());
    case ReduceOp::max:
      return fold.template run<T>(Fixed<ReduceOp::max>());
    default:
      if (divisor == 1) return fold.template run<Unsigned>(Fixed<ReduceOp::sum>());
      return fold.template run<T>(Fixed<ReduceOp::avg>());
  }
}

template <class Fold>
CCOLL_HOST_DEVICE void with_integers(DataType type, ReduceOp op, std::uint32_t divisor,
                                     const Fold& fold) {
  switch (type) {
    case DataType::int8:
      return with_numbers<std::int8_t>(op, divisor, fold);
    case DataType::uint8:
      return with_numbers<std::uint8_t>(op, divisor, fold);
    case DataType::int16:
      return with_numbers<std::int16_t>(op, divisor, fold);
    case DataType::uint16:
      return with_numbers<std::uint16_t>(op, divisor, fold);
    case DataType::int32:
      return with_numbers<std::int32_t>(op, divisor, fold);
    case DataType::uint32:
      return with_numbers<std::uint32_t>(op, divisor, fold);
    case DataType::int64:
      return with_numbers<std::int64_t>(op, divisor, fold);
    default:
      return with_numbers<std::uint64_t>(op, divisor, fold);
  }
}

template <class Fold>
CCOLL_HOST_DEVICE void with_small_floats(DataType type, ReduceOp op, std::uint32_t divisor,
                                         const Fold& fold) {
  switch (type) {
    case DataType::float16:
      return with_numbers<float16>(op, divisor, fold);
    case DataType::bfloat16:
      return with_numbers<bfloat16>(op, divisor, fold);
    case DataType::float8_e4m3:
      return with_numbers<float8_e4m3>(op, divisor, fold);
    default:
      return with_numbers<float8_e5m2>(op, divisor, fold);
  }
}

/// For one family, so that a kernel holds no others.
template <Family family, class Fold>
CCOLL_HOST_DEVICE void with_family(DataType type, ReduceOp op, std::uint32_t divisor,
                                   const Fold& fold) {
  if constexpr (family == Family::integers) {
    with_integers(type, op, divisor, fold);
  } else if constexpr (family == Family::small_floats) {
    with_small_floats(type, op, divisor, fold);
  } else if constexpr (family == Family::floats) {
    if (type == DataType::float32) {
      with_numbers<float>(op, divisor, fold);
    } else {
      with_numbers<double>(op, divisor, fold);
    }
  } else if (type == DataType::boolean) {
    with_bools(op, fold);
  } else {
    with_bits(op, fold);
  }
}

}  // namespace detail

}  // namespace ccoll::device
