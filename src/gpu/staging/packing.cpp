// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/packing.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/cuda/stream_hold.hpp"
#include "gpu/staging/row_copies.hpp"

namespace ccoll::device {
namespace {

/// In one copy, unless there are several allocations or the rows are too far apart for it.
std::vector<Rows> copies_of(const PackedRows& packed) {
  const auto reach = (packed.count - 1) * packed.stride_bytes + packed.row_bytes;
  if (packed.stride_bytes <= Rows::kMostPitch && reach <= bytes_of_allocation_from(packed.rows)) {
    return {{.there = packed.rows,
             .left = reach,
             .here = packed.together,
             .bytes = packed.row_bytes,
             .count = packed.count,
             .pitch_there = packed.stride_bytes,
             .pitch_here = packed.row_bytes}};
  }
  std::vector<Rows> copies;
  for (std::uint64_t row = 0; row < packed.count; ++row)
    add_rows(copies, {packed.rows + row * packed.stride_bytes, packed.row_bytes},
             packed.together + row * packed.row_bytes);
  return copies;
}

Status put_copies(const PackedRows& packed, RowsGo where, cudaStream_t stream) {
  for (const Rows& each : copies_of(packed)) CCOLL_TRY(copy(each, where, stream));
  return {};
}

bool is_read_on_host(const PackedRows& packed) { return packed.is_read && !packed.is_on_device; }

void CUDART_CB together_on_host(void* argument) {
  const InListener here;
  for (const PackedRows& packed : static_cast<const Packing*>(argument)->rows) {
    if (!is_read_on_host(packed)) continue;
    for (std::uint64_t row = 0; row < packed.count; ++row)
      std::memcpy(packed.together + row * packed.row_bytes, packed.rows + row * packed.stride_bytes,
                  packed.row_bytes);
  }
}

}  // namespace

Status put_together(const Packing& packing, cudaStream_t stream) {
  for (const PackedRows& packed : packing.rows)
    if (packed.is_read && packed.is_on_device) CCOLL_TRY(put_copies(packed, RowsGo::here, stream));
  if (std::ranges::none_of(packing.rows, is_read_on_host)) return {};
  return put_function(stream, &together_on_host, const_cast<Packing*>(&packing));
}

Status put_apart_on_device(const Packing& packing, cudaStream_t stream) {
  for (const PackedRows& packed : packing.rows)
    if (packed.is_written && packed.is_on_device)
      CCOLL_TRY(put_copies(packed, RowsGo::there, stream));
  return {};
}

void apart_on_host(const Packing& packing) {
  for (const PackedRows& packed : packing.rows) {
    if (!packed.is_written || packed.is_on_device) continue;
    for (std::uint64_t row = 0; row < packed.count; ++row)
      std::memcpy(packed.rows + row * packed.stride_bytes, packed.together + row * packed.row_bytes,
                  packed.row_bytes);
  }
}

}  // namespace ccoll::device
