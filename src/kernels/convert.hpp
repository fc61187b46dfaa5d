// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Floats of 8 and 16 bits to float32 and back, for data that more than one step combines in
/// float32. Like the kernels that combine, these do not depend on the thread's floating-point
/// state.

#include <cstddef>

#include "ccoll/types.hpp"

namespace ccoll {

/// Exact, except for NaNs: out[i] = element::widen(in[i]). Any alignment of `in`.
using WidenFunction = void (*)(const std::byte* in, float* out, std::size_t elems);
/// Rounded once: out[i] = element::narrow(in[i]). Any alignment of `out`.
using NarrowFunction = void (*)(const float* in, std::byte* out, std::size_t elems);

struct Conversion {
  WidenFunction widen = nullptr;
  NarrowFunction narrow = nullptr;
};

/// For float16, float8_e4m3 or float8_e5m2; null functions for other types.
Conversion find_conversion(DataType type);

}  // namespace ccoll
