// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls in streams are made on contiguous memory. Where blocks have gaps between their rows, the
/// stream brings the rows together before the call, and apart behind it. Needs CUDA's headers: only
/// sources include this.

#include <cuda_runtime_api.h>

#include "core/result.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {

/// Put into the stream what brings rows together, and apart. The packing must live until the stream
/// has passed.
Status put_together(const Packing& packing, cudaStream_t stream);
Status put_apart(const Packing& packing, cudaStream_t stream);

/// The two parts of put_apart(): rows of a device, by copies in the stream, and of the host.
Status put_apart_on_device(const Packing& packing, cudaStream_t stream);
void apart_on_host(const Packing& packing);

}  // namespace ccoll::device
