// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team's call as copies that the GPU makes by itself, with no kernel of ours. Whether it takes
/// its copy engines for them is CUDA's affair. Needs CUDA's headers: only sources include this.
///
/// They share nothing with kernels: no flag, no slot, no ticket. What has been put into a stream is
/// made when the stream comes to it, whatever has been aborted by then.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "engine/device/copies.hpp"
#include "engine/device/program.hpp"

namespace ccoll::device {

/// The copies where the launch's buffers lie; none where a kernel is to make the call, as it does
/// with any memory of the host: from there to there CUDA copies before the function returns.
std::vector<PlacedCopy> copies_for(std::span<const TeamCopy> copies, const TeamLaunch& launch);

Status put_copies(std::span<const PlacedCopy> copies, cudaStream_t stream);

}  // namespace ccoll::device
