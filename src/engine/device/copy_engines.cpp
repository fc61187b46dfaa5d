// SPDX-License-Identifier: Apache-2.0
#include "engine/device/copy_engines.hpp"

#include <algorithm>

#include "engine/device/claim.hpp"
#include "engine/device/cuda.hpp"
#include "engine/device/way.hpp"

namespace ccoll::device {
namespace {

/// Of all ranks.
bool are_on_device(const TeamLaunch& launch) {
  return std::all_of(launch.buffers, launch.buffers + launch.program.workspace,
                     [](const std::byte* buffer) { return device_of(buffer).has_value(); });
}

}  // namespace

std::vector<PlacedCopy> copies_for(std::span<const TeamCopy> copies, const TeamLaunch& launch) {
  if (copies.empty() || !are_on_device(launch)) return {};
  return place(copies, launch.buffers, &bytes_of_allocation_from);
}

Status put_copies(std::span<const PlacedCopy> copies, const TeamLaunch& launch,
                  cudaStream_t stream) {
  CopyClaim claim{launch.state.claim, launch.id, launch.abort, launch.busy};
  void* each[] = {&claim};
  const auto put_kernel = [&](const void* kernel) {
    return cuda_status(cudaLaunchKernel(kernel, dim3(1), dim3(1), each, 0, stream),
                       "claiming a team for copies");
  };
  CCOLL_TRY(put_kernel(copies_begin_kernel()));
  for (const PlacedCopy& copy : copies) {
    CCOLL_TRY(
        cuda_status(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDefault, stream),
                    [&] { return fmt::format("a team's copy of {} bytes", copy.bytes); }));
  }
  return put_kernel(copies_end_kernel());
}

Status load_copy_kernels() {
  for (const void* kernel : {copies_begin_kernel(), copies_end_kernel()}) {
    cudaFuncAttributes ignored = {};
    CCOLL_TRY(cuda_status(cudaFuncGetAttributes(&ignored, kernel), "loading a team's kernels"));
  }
  return {};
}

}  // namespace ccoll::device
