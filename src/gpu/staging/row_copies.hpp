// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copies of rows in a stream. Needs CUDA's headers: only sources include this.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "gpu/staging/rows.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// Which way rows are copied: to Rows::here or to Rows::there.
enum class RowsGo : std::uint8_t { here, there };

/// Adds a range of device memory, copied to or from `here`. No copy goes from one allocation into
/// another.
void add_rows(std::vector<Rows>& all, const MemoryRange& range, std::byte* here);

Status copy(const Rows& rows, RowsGo where, cudaStream_t stream);

}  // namespace ccoll::device
