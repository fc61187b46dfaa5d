// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team's call as copies that its GPUs make by themselves. Whether they take their copy engines
/// for them is CUDA's affair. Needs CUDA's headers: only sources include this.
///
/// They share nothing with kernels, no flag, no slot, no ticket, but the claim (claim.hpp), which a
/// kernel of one thread before them takes and one behind them gives back. What has been put into a
/// stream is made when the stream comes to it, whatever has been aborted by then.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "gpu/program/copies.hpp"
#include "gpu/program/program.hpp"

namespace ccoll::device {

/// The copies where the launch's buffers lie, by GPU; none where kernels are to make the call, as
/// they do with any memory of the host: from there to there CUDA copies before the function
/// returns.
std::vector<PlacedCopies> copies_for(std::span<const TeamCopies> copies, const TeamLaunch& launch);

/// What claims the team on the stream's GPU, which is the current one, and what gives it back.
Status put_claim(const TeamLaunch& launch, cudaStream_t stream);
Status put_end_of_claim(const TeamLaunch& launch, cudaStream_t stream);

/// Of memory that the stream's GPU reaches. After a failure the stream may hold some of them.
Status put_copies(std::span<const PlacedCopy> copies, cudaStream_t stream);

/// Loads the kernels that claim the team.
Status load_copy_kernels();

}  // namespace ccoll::device
