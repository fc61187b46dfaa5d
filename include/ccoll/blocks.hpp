// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Buffers that are not one stretch of memory: blocks of different sizes, one per rank, anywhere
/// (v-operations), and several buffers in one call (coalesced operations). What they point to is
/// the caller's; the lists themselves are copied by the call.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "ccoll/buffer.hpp"
#include "ccoll/types.hpp"
#include "ccoll/version.hpp"

namespace ccoll {

/// `count` elements to read. Null only where count is 0.
struct ConstBlock {
  const void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;

  ConstBlock() = default;
  ConstBlock(const void* at, std::size_t elems, DataType of) : data(at), count(elems), type(of) {}
  template <InputBuffer B>
  ConstBlock(B&& buffer)
      : ConstBlock(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>) {}
};

/// `count` elements to write. Null only where count is 0.
struct Block {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;

  Block() = default;
  Block(void* at, std::size_t elems, DataType of) : data(at), count(elems), type(of) {}
  template <OutputBuffer B>
  Block(B&& buffer)
      : Block(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>) {}
};

/// One of the buffers of a coalesced call: input, output and count are as that operation has them.
struct BufferPair {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;

  BufferPair() = default;
  BufferPair(const void* in, void* out, std::size_t elems, DataType of)
      : input(in), output(out), count(elems), type(of) {}
  /// In place, for operations whose input and output have one size.
  template <OutputBuffer B>
  BufferPair(B&& buffer)
      : BufferPair(std::ranges::data(buffer), std::ranges::data(buffer), std::ranges::size(buffer),
                   element_type_of<B>) {}
};

/// Elements per rank: of any integral type, for torch's and MPI's splits.
template <typename C>
concept CountList =
    std::ranges::input_range<const C> && std::integral<std::ranges::range_value_t<C>>;

/// `counts`, none of which is below 0 and whose sum is `elems`, or Error{invalid_argument}: what
/// blocks() checks.
CCOLL_API std::vector<std::size_t> checked_counts(std::size_t elems,
                                                  std::vector<std::int64_t> counts);

namespace detail {
template <typename AnyBlock, typename Span, CountList C>
std::vector<AnyBlock> cut(Span buffer, const C& counts) {
  std::vector<std::int64_t> wide;
  for (const auto count : counts) wide.push_back(static_cast<std::int64_t>(count));
  std::vector<AnyBlock> cut;
  for (const auto count : checked_counts(buffer.size(), std::move(wide))) {
    cut.emplace_back(buffer.first(count));
    buffer = buffer.subspan(count);
  }
  return cut;
}

template <typename AnyBlock, typename L>
std::vector<AnyBlock> listed(L&& list) {
  std::vector<AnyBlock> blocks;
  for (auto&& buffer : list) blocks.emplace_back(buffer);
  return blocks;
}
}  // namespace detail

/// One buffer cut into blocks that lie one after another, `counts[r]` elements for rank r:
/// `blocks(buffer, {2, 0, 3})`. Error{invalid_argument} if `buffer` has not as many elements as
/// they have together.
template <OutputBuffer B, CountList C = std::initializer_list<std::size_t>>
std::vector<Block> blocks(B&& buffer, const C& counts) {
  return detail::cut<Block>(std::span(std::ranges::data(buffer), std::ranges::size(buffer)),
                            counts);
}
/// The same to read.
template <InputBuffer B, CountList C = std::initializer_list<std::size_t>>
std::vector<ConstBlock> const_blocks(B&& buffer, const C& counts) {
  return detail::cut<ConstBlock>(std::span(std::ranges::data(buffer), std::ranges::size(buffer)),
                                 counts);
}

/// A block of each buffer of a list.
template <OutputBufferList L>
std::vector<Block> blocks(L&& list) {
  return detail::listed<Block>(list);
}
/// The same to read.
template <InputBufferList L>
std::vector<ConstBlock> const_blocks(L&& list) {
  return detail::listed<ConstBlock>(list);
}
/// The buffers of a coalesced call, each in place.
template <OutputBufferList L>
std::vector<BufferPair> in_place(L&& list) {
  return detail::listed<BufferPair>(list);
}

}  // namespace ccoll
