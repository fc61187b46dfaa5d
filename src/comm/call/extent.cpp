// SPDX-License-Identifier: Apache-2.0
#include "comm/call/extent.hpp"

#include <algorithm>
#include <cstdint>

#include "ccoll/types.hpp"

namespace ccoll {

Status check_rows(std::string_view call, std::string_view what, const ConstBlock& block) {
  if (is_contiguous(block)) return {};
  if (block.row_length == 0)
    return fail(ErrorKind::invalid_argument,
                "{}: the {} has a stride of {} and a row_length of 0: expected both, or neither",
                call, what, block.stride);
  if (block.count % block.row_length != 0)
    return fail(ErrorKind::invalid_argument,
                "{}: the {}'s {} elements are not whole rows of {} elements", call, what,
                block.count, block.row_length);
  if (block.stride < block.row_length)
    return fail(ErrorKind::invalid_argument,
                "{}: the {}'s rows of {} elements overlap, for its stride is {}", call, what,
                block.row_length, block.stride);
  const auto width = std::max<std::size_t>(size_of(block.type), 1);
  std::size_t elems = 0;
  if (__builtin_mul_overflow(block.count / block.row_length - 1, block.stride, &elems) ||
      __builtin_add_overflow(elems, block.row_length, &elems) || elems > kBeyondMemory / width)
    return fail(ErrorKind::invalid_argument,
                "{}: the {} has {} rows with a stride of {} elements, more than memory can hold",
                call, what, block.count / block.row_length, block.stride);
  return {};
}

Result<Extent> extent_of(std::string_view call, Kind kind, const ConstBlock& input,
                         const Block& output, Place place) {
  const bool reads = place.is_root || !is_roots_alone(kind, Buffer::input);
  const bool writes = place.is_root || !is_roots_alone(kind, Buffer::output);
  if (reads) CCOLL_TRY(check_rows(call, "input", input));
  if (writes) CCOLL_TRY(check_rows(call, "output", output));
  if (const auto extent = extent_of_counts(kind, input, output, place)) return *extent;
  if (reads && writes && input.type != output.type)
    return fail(ErrorKind::invalid_argument,
                "{}: the input is of {}, the output of {}; a call has one type", call,
                to_string(input.type), to_string(output.type));
  const bool gathers = holds_own_block_only(kind, Buffer::input);
  const bool scatters = holds_own_block_only(kind, Buffer::output);
  if (!gathers && !scatters && input.count != output.count)
    return fail(ErrorKind::invalid_argument,
                "{}: the input has {} elements, the output {}; they must be equal", call,
                input.count, output.count);
  if (!gathers && !scatters)
    return fail(ErrorKind::invalid_argument,
                "{}: {} elements do not divide evenly among {} ranks; use {}_v", call, input.count,
                place.size, to_string(kind));
  return fail(ErrorKind::invalid_argument, "{}: {} elements are not {} ranks times {}; use {}_v",
              call, gathers ? output.count : input.count, place.size,
              gathers ? input.count : output.count, to_string(kind));
}

}  // namespace ccoll
