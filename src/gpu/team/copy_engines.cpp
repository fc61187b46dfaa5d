// SPDX-License-Identifier: Apache-2.0
#include "gpu/team/copy_engines.hpp"

#include <algorithm>

#include "gpu/cuda/cuda.hpp"
#include "gpu/kernel/claim.hpp"
#include "gpu/way.hpp"

namespace ccoll::device {
namespace {

/// Whether the buffers of all ranks are device memory.
bool are_on_device(const TeamLaunch& launch) {
  return std::all_of(launch.buffers, launch.buffers + launch.program.workspace,
                     [](const std::byte* buffer) { return device_of(buffer).has_value(); });
}

Status put_kernel(const void* kernel, const TeamLaunch& launch, cudaStream_t stream) {
  CopyClaim claim{launch.state.claim, launch.id, launch.abort, launch.busy};
  void* each[] = {&claim};
  return cuda_status(cudaLaunchKernel(kernel, dim3(1), dim3(1), each, 0, stream),
                     "claiming a team for copies");
}

}  // namespace

std::vector<PlacedCopies> copies_for(std::span<const TeamCopies> copies, const TeamLaunch& launch) {
  std::vector<PlacedCopies> placed;
  if (copies.empty() || !are_on_device(launch)) return placed;
  for (const TeamCopies& each : copies)
    placed.push_back(place(each, launch.buffers, &bytes_of_allocation_from));
  if (std::ranges::all_of(placed, &PlacedCopies::is_empty)) placed.clear();
  return placed;
}

Status put_claim(const TeamLaunch& launch, cudaStream_t stream) {
  return put_kernel(copies_begin_kernel(), launch, stream);
}

Status put_end_of_claim(const TeamLaunch& launch, cudaStream_t stream) {
  return put_kernel(copies_end_kernel(), launch, stream);
}

Status put_copies(std::span<const PlacedCopy> copies, cudaStream_t stream) {
  for (const PlacedCopy& copy : copies) {
    CCOLL_TRY(
        cuda_status(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDefault, stream),
                    [&] { return fmt::format("a team's copy of {} bytes", copy.bytes); }));
  }
  return {};
}

Status load_copy_kernels() {
  for (const void* kernel : {copies_begin_kernel(), copies_end_kernel()}) {
    cudaFuncAttributes ignored = {};
    CCOLL_TRY(cuda_status(cudaFuncGetAttributes(&ignored, kernel), "loading a team's kernels"));
  }
  return {};
}

}  // namespace ccoll::device
