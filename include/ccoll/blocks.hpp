// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Buffers that are not one stretch of memory: blocks of different sizes, one per rank, anywhere
/// (v-operations), and several buffers in one call (coalesced operations). What they point to is
/// the caller's; the lists themselves are copied by the call.

#include <cstddef>
#include <span>
#include <vector>

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
  template <Element T>
  ConstBlock(std::span<const T> elems) : ConstBlock(elems.data(), elems.size(), data_type_of<T>) {}
  template <Element T>
  ConstBlock(std::span<T> elems) : ConstBlock(std::span<const T>(elems)) {}
};

/// `count` elements to write. Null only where count is 0.
struct Block {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::uint8;

  Block() = default;
  Block(void* at, std::size_t elems, DataType of) : data(at), count(elems), type(of) {}
  template <Element T>
  Block(std::span<T> elems) : Block(elems.data(), elems.size(), data_type_of<T>) {}
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
  template <Element T>
  BufferPair(std::span<T> elems)
      : BufferPair(elems.data(), elems.data(), elems.size(), data_type_of<T>) {}
};

/// One buffer cut into blocks that lie one after another, `counts[r]` elements for rank r.
/// Error{invalid_argument} if `buffer` has not as many elements as they have together.
template <Element T>
std::vector<Block> blocks(std::span<T> buffer, std::span<const std::size_t> counts);
template <Element T>
std::vector<ConstBlock> blocks(std::span<const T> buffer, std::span<const std::size_t> counts);

/// Throws unless the counts' sum is `elems`: what blocks() checks.
CCOLL_API void require_sum(std::size_t elems, std::span<const std::size_t> counts);

namespace detail {
template <typename AnyBlock, typename T>
std::vector<AnyBlock> cut(std::span<T> buffer, std::span<const std::size_t> counts) {
  require_sum(buffer.size(), counts);
  std::vector<AnyBlock> blocks;
  blocks.reserve(counts.size());
  for (const std::size_t count : counts) {
    blocks.emplace_back(buffer.first(count));
    buffer = buffer.subspan(count);
  }
  return blocks;
}
}  // namespace detail

template <Element T>
std::vector<Block> blocks(std::span<T> buffer, std::span<const std::size_t> counts) {
  return detail::cut<Block>(buffer, counts);
}

template <Element T>
std::vector<ConstBlock> blocks(std::span<const T> buffer, std::span<const std::size_t> counts) {
  return detail::cut<ConstBlock>(buffer, counts);
}

}  // namespace ccoll
