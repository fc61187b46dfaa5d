// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Containers that convert to blocks: anything whose elements lie one after another (a std::span, a
/// std::vector, a std::array, a C array) and have a type that ccoll has. Nothing is copied or kept:
/// the memory is the caller's.

#include <ranges>
#include <type_traits>

#include "ccoll/types.hpp"

namespace ccoll {

/// Elements to read. Not a temporary that owns them: asynchronous calls outlive it.
template <typename B>
concept InputBuffer = std::ranges::contiguous_range<B> && std::ranges::sized_range<B> &&
    std::ranges::borrowed_range<B> && Element<std::ranges::range_value_t<B>>;

/// Elements to write.
template <typename B>
concept OutputBuffer =
    InputBuffer<B> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<B>>>;

/// A list of buffers.
template <typename L>
concept InputBufferList =
    std::ranges::input_range<L> && InputBuffer<std::ranges::range_reference_t<L>>;
template <typename L>
concept OutputBufferList =
    std::ranges::input_range<L> && OutputBuffer<std::ranges::range_reference_t<L>>;

/// The DataType of a buffer's elements.
template <InputBuffer B>
inline constexpr DataType element_type_of = data_type_of<std::ranges::range_value_t<B>>;

}  // namespace ccoll
