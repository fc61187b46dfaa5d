// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernels for machines without a SIMD target, and for calls too short for one: the definitions
/// of element.hpp, one element after the other.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/element.hpp"
#include "core/float_state.hpp"
#include "kernels/combine.hpp"
#include "kernels/convert.hpp"

namespace ccoll {

/// Whether the fold is arithmetic of floats or, for integers, ends in it.
template <typename T, ReduceOp op>
inline constexpr bool depends_on_float_state =
    std::is_floating_point_v<element::Accumulator<T>> || op == ReduceOp::avg;

template <typename T, ReduceOp op>
void combine_scalar(const std::byte* const* sources, std::size_t source_count, std::byte* out,
                    std::size_t elems, std::uint32_t divisor) {
  const auto load = [](const std::byte* source, std::size_t i) {
    T value;
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    return value;
  };
  if (source_count == 1 && (op != ReduceOp::avg || divisor == 1)) {
    if (out != sources[0] && elems != 0) std::memcpy(out, sources[0], elems * sizeof(T));
    return;
  }
  for (std::size_t i = 0; i < elems; ++i) {
    auto folded = element::widen(load(sources[0], i));
    for (std::size_t s = 1; s < source_count; ++s) {
      folded = element::fold<op>(folded, element::widen(load(sources[s], i)));
    }
    const T result = element::finish<op, T>(folded, divisor);
    std::memcpy(out + i * sizeof(T), &result, sizeof(T));
  }
}

/// The CombineFunction, in any state of the thread's floating point.
template <typename T, ReduceOp op>
void combine_scalar_anywhere(const std::byte* const* sources, std::size_t source_count,
                             std::byte* out, std::size_t elems, std::uint32_t divisor) {
  in_default_float_state(
      [&] { combine_scalar<T, op>(sources, source_count, out, elems, divisor); });
}

/// A ScaleFunction, in any such state.
template <typename T>
void scale_scalar(const std::byte* in, std::byte* out, std::size_t elems,
                  const element::Factor& factor) {
  in_default_float_state([&] {
    for (std::size_t i = 0; i < elems; ++i) {
      T value;
      std::memcpy(&value, in + i * sizeof(T), sizeof(T));
      value = element::scale(value, factor);
      std::memcpy(out + i * sizeof(T), &value, sizeof(T));
    }
  });
}

/// A WidenFunction and a NarrowFunction, in any such state.
template <typename T>
void widen_scalar(const std::byte* in, float* out, std::size_t elems) {
  in_default_float_state([&] {
    for (std::size_t i = 0; i < elems; ++i) {
      T value;
      std::memcpy(&value, in + i * sizeof(T), sizeof(T));
      out[i] = element::widen(value);
    }
  });
}
template <typename T>
void narrow_scalar(const float* in, std::byte* out, std::size_t elems) {
  in_default_float_state([&] {
    for (std::size_t i = 0; i < elems; ++i) {
      const T value = element::narrow<T>(in[i]);
      std::memcpy(out + i * sizeof(T), &value, sizeof(T));
    }
  });
}

/// Null where the operation is not defined on T.
template <typename T>
CombineFunction find_combine_scalar(ReduceOp op) {
  return element::with_op(op, [](auto constant) -> CombineFunction {
    if constexpr (is_defined(constant, data_type_of<T>)) {
      return &combine_scalar_anywhere<T, constant>;
    } else {
      return nullptr;
    }
  });
}

}  // namespace ccoll
