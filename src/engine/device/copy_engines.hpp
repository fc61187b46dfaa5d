// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team's call as copies that the GPU makes by itself. Whether it takes its copy engines for them
/// is CUDA's affair. Needs CUDA's headers: only sources include this.
///
/// They share nothing with kernels, no flag, no slot, no ticket, but the claim (claim.hpp), which a
/// kernel of one thread before them takes and one behind them gives back. What has been put into a
/// stream is made when the stream comes to it, whatever has been aborted by then.

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

/// After a failure the stream may hold some of it, and the team may stay claimed.
Status put_copies(std::span<const PlacedCopy> copies, const TeamLaunch& launch,
                  cudaStream_t stream);

/// Loads the kernels that claim the team.
Status load_copy_kernels();

}  // namespace ccoll::device
