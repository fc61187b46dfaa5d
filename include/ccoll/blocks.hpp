// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Blocks are what every operation reads and writes: a pointer, a number of elements and their
/// type. Lists of them serve operations whose blocks differ in size (v-operations) and operations
/// on several buffers at once (coalesced calls). The memory is the caller's; a call copies the
/// lists that it gets, and nothing else.

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

/// Elements to write: `count` of them. `data` may be null only where `count` is 0.
///
/// With `row_length` and `stride` 0 the elements lie one after another. Otherwise they are rows of
/// `row_length` elements each, and every row begins `stride` elements behind the row before it:
/// the first two columns of a matrix with 5 rows of 8 are {data, 10, type, 2, 8}. `count` is then a
/// multiple of `row_length`, and `stride` is at least `row_length`, unless there is one row or
/// none; at most 2^56 bytes are spanned. Parts of a buffer may begin and end within rows. Memory
/// between the rows is neither read nor written. Every operation takes such blocks, and other ranks
/// need not know of the rows: slices are gathered and scattered as they travel. Rows in memory of a
/// GPU are packed there, by copies in the call's stream.
struct Block {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;
  std::size_t row_length = 0;  ///< in elements
  std::size_t stride = 0;      ///< in elements, from the beginning of a row to the next one's

  Block() = default;
  Block(void* at, std::size_t elems, DataType of, std::size_t row = 0, std::size_t step = 0)
      : data(at), count(elems), type(of), row_length(row), stride(step) {}
  template <OutputBuffer B>
  Block(B&& buffer)
      : Block(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>) {}
};

/// Elements to read, as Block describes them.
struct ConstBlock {
  const void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;
  std::size_t row_length = 0;
  std::size_t stride = 0;

  ConstBlock() = default;
  ConstBlock(const void* at, std::size_t elems, DataType of, std::size_t row = 0,
             std::size_t step = 0)
      : data(at), count(elems), type(of), row_length(row), stride(step) {}
  ConstBlock(const Block& block)
      : ConstBlock(block.data, block.count, block.type, block.row_length, block.stride) {}
  template <InputBuffer B>
  ConstBlock(B&& buffer)
      : ConstBlock(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>) {}
};

/// One buffer of a coalesced call, with the blocks that a call on it alone would take.
struct BufferPair {
  ConstBlock input;
  Block output;

  BufferPair() = default;
  BufferPair(const ConstBlock& in, const Block& out) : input(in), output(out) {}
  /// In place, for operations whose input and output have one size.
  BufferPair(const Block& buffer) : input(buffer), output(buffer) {}
  template <OutputBuffer B>
  BufferPair(B&& buffer) : input(buffer), output(buffer) {}
};

/// Elements per rank: of any integral type, for torch's and MPI's splits.
template <typename C>
concept CountList =
    std::ranges::input_range<const C> && std::integral<std::ranges::range_value_t<C>>;

/// Returns `counts` if none is below 0 and their sum is `elems`; Error{invalid_argument} otherwise.
/// blocks() checks by it.
CCOLL_API std::vector<std::size_t> checked_counts(std::size_t elems,
                                                  std::vector<std::int64_t> counts);

/// Returns `counts` of columns if none is below 0 and their sum is the number of columns of a
/// matrix of `elems` elements in `rows` rows; Error{invalid_argument} otherwise. columns() checks
/// by it. A matrix without rows may have any number of columns.
CCOLL_API std::vector<std::size_t> checked_columns(std::size_t elems, std::size_t rows,
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

template <typename AnyBlock, typename Span, CountList C>
std::vector<AnyBlock> cut_columns(Span matrix, std::size_t rows, const C& counts) {
  std::vector<std::int64_t> wide;
  for (const auto count : counts) wide.push_back(static_cast<std::int64_t>(count));
  std::vector<AnyBlock> cut;
  auto* column = matrix.data();
  for (const auto count : checked_columns(matrix.size(), rows, std::move(wide))) {
    cut.emplace_back(column, rows * count, element_type_of<Span>, count,
                     rows == 0 ? count : matrix.size() / rows);
    if (rows > 0) column += count;
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
/// `blocks(buffer, {2, 0, 3})`. Error{invalid_argument} if the sum of the counts is not the number
/// of elements of `buffer`.
template <OutputBuffer B, CountList C = std::initializer_list<std::size_t>>
std::vector<Block> blocks(B&& buffer, const C& counts) {
  return detail::cut<Block>(std::span(std::ranges::data(buffer), std::ranges::size(buffer)),
                            counts);
}
/// The same for blocks to read.
template <InputBuffer B, CountList C = std::initializer_list<std::size_t>>
std::vector<ConstBlock> const_blocks(B&& buffer, const C& counts) {
  return detail::cut<ConstBlock>(std::span(std::ranges::data(buffer), std::ranges::size(buffer)),
                                 counts);
}

/// A matrix of `rows` rows, which lie one after another, cut into blocks of columns, `counts[r]` of
/// them for rank r: `columns(matrix, 5, {2, 2, 4})` of 40 elements. Error{invalid_argument} if the
/// rows cannot be equally long, or have not as many columns as the counts are together.
template <OutputBuffer B, CountList C = std::initializer_list<std::size_t>>
std::vector<Block> columns(B&& matrix, std::size_t rows, const C& counts) {
  return detail::cut_columns<Block>(std::span(std::ranges::data(matrix), std::ranges::size(matrix)),
                                    rows, counts);
}
/// The same to read.
template <InputBuffer B, CountList C = std::initializer_list<std::size_t>>
std::vector<ConstBlock> const_columns(B&& matrix, std::size_t rows, const C& counts) {
  return detail::cut_columns<ConstBlock>(
      std::span(std::ranges::data(matrix), std::ranges::size(matrix)), rows, counts);
}

/// A block of each buffer of a list.
template <OutputBufferList L>
std::vector<Block> blocks(L&& list) {
  return detail::listed<Block>(list);
}
/// The same for blocks to read.
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
