// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of one step in one window, and copies between rows and contiguous memory. A block of a
/// matrix's columns has rows of a few bytes, so the loops over rows are made for their lengths.

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ccoll {

/// A stretch of memory, or rows with gaps between them.
struct MemoryRange {
  std::byte* data = nullptr;
  std::size_t bytes = 0;             ///< without gaps
  std::size_t row_bytes = 0;         ///< 0: a stretch
  std::size_t stride_bytes = 0;      ///< from the beginning of a row to the next one's
  std::size_t first_row_offset = 0;  ///< bytes of its row before `data`

  bool has_rows() const { return row_bytes > 0; }
};

namespace detail {

template <std::size_t kBytes>
void gather_rows(std::byte* to, const std::byte* row, std::size_t rows, std::size_t stride) {
  for (std::size_t i = 0; i < rows; i++) std::memcpy(to + i * kBytes, row + i * stride, kBytes);
}
template <std::size_t kBytes>
void scatter_rows(std::byte* row, const std::byte* from, std::size_t rows, std::size_t stride) {
  for (std::size_t i = 0; i < rows; i++) std::memcpy(row + i * stride, from + i * kBytes, kBytes);
}

inline void gather_rows(std::byte* to, const std::byte* row, std::size_t rows, std::size_t bytes,
                        std::size_t stride) {
  switch (bytes) {
    case 1:
      return gather_rows<1>(to, row, rows, stride);
    case 2:
      return gather_rows<2>(to, row, rows, stride);
    case 4:
      return gather_rows<4>(to, row, rows, stride);
    case 8:
      return gather_rows<8>(to, row, rows, stride);
    case 16:
      return gather_rows<16>(to, row, rows, stride);
    case 32:
      return gather_rows<32>(to, row, rows, stride);
    case 64:
      return gather_rows<64>(to, row, rows, stride);
    default:
      for (std::size_t i = 0; i < rows; i++) std::memcpy(to + i * bytes, row + i * stride, bytes);
  }
}
inline void scatter_rows(std::byte* row, const std::byte* from, std::size_t rows, std::size_t bytes,
                         std::size_t stride) {
  switch (bytes) {
    case 1:
      return scatter_rows<1>(row, from, rows, stride);
    case 2:
      return scatter_rows<2>(row, from, rows, stride);
    case 4:
      return scatter_rows<4>(row, from, rows, stride);
    case 8:
      return scatter_rows<8>(row, from, rows, stride);
    case 16:
      return scatter_rows<16>(row, from, rows, stride);
    case 32:
      return scatter_rows<32>(row, from, rows, stride);
    case 64:
      return scatter_rows<64>(row, from, rows, stride);
    default:
      for (std::size_t i = 0; i < rows; i++) std::memcpy(row + i * stride, from + i * bytes, bytes);
  }
}

/// Calls part(row's memory, bytes before, rows, bytes of each) for bytes [at, at + bytes) of a
/// range with rows: the rest of a row, whole rows, and the beginning of a row.
template <typename Part>
void for_each_part(const MemoryRange& range, std::size_t at, std::size_t bytes, const Part& part) {
  const auto first = range.first_row_offset + at, column = first % range.row_bytes;
  auto* row = range.data - range.first_row_offset + first / range.row_bytes * range.stride_bytes;
  std::size_t done = 0;
  if (column > 0) {
    done = std::min(bytes, range.row_bytes - column);
    part(row + column, std::size_t{0}, std::size_t{1}, done);
    row += range.stride_bytes;
  }
  const auto rows = (bytes - done) / range.row_bytes;
  if (rows > 0) part(row, done, rows, range.row_bytes);
  row += rows * range.stride_bytes;
  done += rows * range.row_bytes;
  if (done < bytes) part(row, done, std::size_t{1}, bytes - done);
}

}  // namespace detail

/// Bytes [at, at + bytes) of a range, one after another at `to`.
inline void gather(const MemoryRange& range, std::size_t at, std::size_t bytes, std::byte* to) {
  if (!range.has_rows()) return void(std::memcpy(to, range.data + at, bytes));
  detail::for_each_part(
      range, at, bytes,
      [&](const std::byte* row, std::size_t before, std::size_t rows, std::size_t each) {
        detail::gather_rows(to + before, row, rows, each, range.stride_bytes);
      });
}

/// The reverse.
inline void scatter(const std::byte* from, std::size_t bytes, const MemoryRange& range,
                    std::size_t at) {
  if (!range.has_rows()) return void(std::memcpy(range.data + at, from, bytes));
  detail::for_each_part(
      range, at, bytes,
      [&](std::byte* row, std::size_t before, std::size_t rows, std::size_t each) {
        detail::scatter_rows(row, from + before, rows, each, range.stride_bytes);
      });
}

}  // namespace ccoll
