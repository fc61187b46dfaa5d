// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/packing.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/cuda/stream_hold.hpp"
#include "gpu/staging/row_copies.hpp"

namespace ccoll::device {
namespace {

/// One copy for the rows of an allocation, unless they are too far apart for that.
std::vector<Rows> copies_of(const PackedRows& packed) {
  std::vector<Rows> copies;
  for (std::uint64_t row = 0; row < packed.count;) {
    std::byte* const there = packed.rows + row * packed.stride_bytes;
    std::byte* const here = packed.together + row * packed.row_bytes;
    const auto left = bytes_of_allocation_from(there);
    std::uint64_t count = 1;
    if (left >= packed.row_bytes && packed.stride_bytes <= Rows::kMostPitch)
      count = std::min(packed.count - row, (left - packed.row_bytes) / packed.stride_bytes + 1);
    if (count == 1)
      add_rows(copies, {there, packed.row_bytes}, here);
    else
      copies.push_back({.there = there,
                        .left = left,
                        .here = here,
                        .bytes = packed.row_bytes,
                        .count = count,
                        .pitch_there = packed.stride_bytes,
                        .pitch_here = packed.row_bytes});
    row += count;
  }
  return copies;
}

bool moves(const PackedRows& packed, RowsGo where) {
  return where == RowsGo::here ? packed.is_read : packed.is_written;
}

Status put_on_device(const Packing& packing, RowsGo where, cudaStream_t stream) {
  for (const PackedRows& packed : packing.rows) {
    if (!packed.is_on_device || !moves(packed, where)) continue;
    for (const Rows& each : copies_of(packed)) CCOLL_TRY(copy(each, where, stream));
  }
  return {};
}

void copy_on_host(const Packing& packing, RowsGo where) {
  for (const PackedRows& packed : packing.rows) {
    if (packed.is_on_device || !moves(packed, where)) continue;
    for (std::uint64_t row = 0; row < packed.count; ++row) {
      std::byte* const there = packed.rows + row * packed.stride_bytes;
      std::byte* const here = packed.together + row * packed.row_bytes;
      where == RowsGo::here ? std::memcpy(here, there, packed.row_bytes)
                            : std::memcpy(there, here, packed.row_bytes);
    }
  }
}

template <RowsGo kWhere>
Status put_on_host(const Packing& packing, cudaStream_t stream) {
  const auto is_moved = [](const PackedRows& packed) {
    return !packed.is_on_device && moves(packed, kWhere);
  };
  if (std::ranges::none_of(packing.rows, is_moved)) return {};
  const auto run = [](void* argument) {
    const InListener here;
    copy_on_host(*static_cast<const Packing*>(argument), kWhere);
  };
  return put_function(stream, run, const_cast<Packing*>(&packing));
}

}  // namespace

Status put_together(const Packing& packing, cudaStream_t stream) {
  CCOLL_TRY(put_on_device(packing, RowsGo::here, stream));
  return put_on_host<RowsGo::here>(packing, stream);
}

Status put_apart(const Packing& packing, cudaStream_t stream) {
  CCOLL_TRY(put_apart_on_device(packing, stream));
  return put_on_host<RowsGo::there>(packing, stream);
}

Status put_apart_on_device(const Packing& packing, cudaStream_t stream) {
  return put_on_device(packing, RowsGo::there, stream);
}

void apart_on_host(const Packing& packing) { copy_on_host(packing, RowsGo::there); }

}  // namespace ccoll::device
