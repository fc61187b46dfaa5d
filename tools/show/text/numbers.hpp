// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Real numbers for the rounds' contents: element i of rank r's input is 10r + i, and all else
/// follows from the definitions of the element types, rounding included.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "rounds/rounds.hpp"

namespace ccoll::show {

/// Elements of one content as text.
using Numbers = std::vector<std::string>;

/// For every content, at most the first `most` elements. Empty for a barrier, which has no data.
std::vector<Numbers> numbers_of(const Rounds& rounds, ReduceOp op, DataType type, std::size_t most);

/// The reduction of all ranks' contributions to that block, in rank order and finished.
Numbers reduced_numbers(const Rounds& rounds, ReduceOp op, DataType type, std::uint32_t block,
                        std::size_t most);

/// A rank's input of that many elements, in memory format.
std::vector<std::byte> input_bytes(DataType type, Rank rank, std::uint64_t elems);

/// Numbers as elements in memory format. Fails if the type cannot represent one of them.
Result<std::vector<std::byte>> bytes_of(DataType type, const std::vector<double>& values);

/// Elements [first, first + elems) of a buffer.
Numbers texts_of(DataType type, const std::vector<std::byte>& buffer, std::uint64_t first,
                 std::uint64_t elems);

}  // namespace ccoll::show
