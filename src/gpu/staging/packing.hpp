// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Rows with gaps between them, in calls in streams: the stream brings them together before the
/// call and apart behind it, so that calls know contiguous memory alone. Needs CUDA's headers: only
/// sources include this.

#include <cuda_runtime_api.h>

#include "core/result.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// Puts what brings the rows together into the stream. The packing must live until the stream has
/// passed.
Status put_together(const Packing& packing, cudaStream_t stream);
/// Puts what brings a device's rows apart into the stream.
Status put_apart_on_device(const Packing& packing, cudaStream_t stream);
/// Brings the host's rows apart.
void apart_on_host(const Packing& packing);

}  // namespace ccoll::device
