// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A team's call as copies that its GPUs make by themselves. CUDA decides whether copy engines make
/// them. Needs CUDA's headers: only sources include this.
///
/// Copies share no flag, slot or ticket with kernels, only the claim (claim.hpp): a kernel of one
/// thread before them takes it, and one behind them gives it back. Copies that are in a stream are
/// made when the stream reaches them, even after an abort.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "gpu/program/copies.hpp"
#include "gpu/program/program.hpp"

namespace ccoll::device {

/// The copies where the launch's buffers lie, by GPU; empty if kernels must make the call. They
/// must if any buffer is host memory: CUDA copies from host to host before the function returns.
std::vector<PlacedCopies> copies_for(std::span<const TeamCopies> copies, const TeamLaunch& launch);

/// Take the claim on the team, and give it back, on the stream's GPU, which is the current one.
Status put_claim(const TeamLaunch& launch, cudaStream_t stream);
Status put_end_of_claim(const TeamLaunch& launch, cudaStream_t stream);

/// The stream's GPU must reach the memory. After a failure the stream may hold some of the copies.
Status put_copies(std::span<const PlacedCopy> copies, cudaStream_t stream);

/// Loads the kernels that claim the team.
Status load_copy_kernels();

}  // namespace ccoll::device
