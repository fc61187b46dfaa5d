// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/row_copies.hpp"

#include <algorithm>

#include "gpu/cuda/cuda.hpp"

namespace ccoll::device {

void add_rows(std::vector<Rows>& all, const MemoryRange& range, std::byte* here) {
  for (std::uint64_t done = 0; done < range.bytes;) {
    std::byte* const there = range.data + done;
    const auto known = bytes_of_allocation_from(there);
    const auto bytes = std::min(range.bytes - done, known);
    const auto left = known == UINT64_MAX ? bytes : known;
    if (all.empty() || !all.back().take(there, here + done, bytes))
      all.push_back({.there = there, .left = left, .here = here + done, .bytes = bytes});
    done += bytes;
  }
}

Status copy(const Rows& rows, RowsGo where, cudaStream_t stream) {
  const bool to_here = where == RowsGo::here;
  std::byte* const to = to_here ? rows.here : rows.there;
  const std::byte* const from = to_here ? rows.there : rows.here;
  const auto to_pitch = to_here ? rows.pitch_here : rows.pitch_there;
  const auto from_pitch = to_here ? rows.pitch_there : rows.pitch_here;
  return cuda_status(
      rows.count == 1 ? cudaMemcpyAsync(to, from, rows.bytes, cudaMemcpyDefault, stream)
                      : cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, rows.bytes, rows.count,
                                          cudaMemcpyDefault, stream),
      [&] { return fmt::format("copying {} times {} bytes in a stream", rows.count, rows.bytes); });
}

}  // namespace ccoll::device
