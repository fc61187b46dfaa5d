// SPDX-License-Identifier: Apache-2.0

/// Memory of cudaMalloc that processes share by handle.

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "support/gpu/cuda_on_host/memory.hpp"
#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

namespace {

/// Memory of another process that this one has opened, and the device it is opened for.
struct Opened {
  cudaIpcMemHandle_t handle;
  int device;
  std::unique_ptr<AllocationOnHost> memory;
  int times = 1;
};
auto& opened = *new std::map<const void*, Opened>;  // guarded by mu; by the returned address

}  // namespace

bool is_opened(const void* place) { return opened.contains(place); }

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (has_fault("handle")) return cudaErrorNotSupported;
  const AllocationOnHost* const allocation = allocation_at(memory);
  if (allocation == nullptr || allocation->begin() != memory || on_device.at(memory).open_to)
    return cudaErrorInvalidValue;
  *handle = allocation->handle();
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  if (has_fault("open")) return cudaErrorMapBufferObjectFailed;
  if (AllocationOnHost::is_of_this_process(handle)) return cudaErrorDeviceUninitialized;
  for (auto& [place, each] : opened) {
    if (each.device != current_device || std::memcmp(&each.handle, &handle, sizeof handle) != 0)
      continue;
    ++each.times;
    *memory = const_cast<void*>(place);
    return cudaSuccess;
  }
  auto made = AllocationOnHost::open(handle, has_fault("elsewhere"));
  if (made == nullptr) return cudaErrorInvalidResourceHandle;
  if (made->device() != current_device && peering == kPeersTooMany) return cudaErrorTooManyPeers;
  if (made->device() != current_device && peering == kPeersApart)
    return cudaErrorMapBufferObjectFailed;
  *memory = made->begin();
  on_device[*memory] = {made->bytes(), made->device(), std::set{made->device(), current_device}};
  opened[*memory] = {handle, current_device, std::move(made)};
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const auto found = opened.find(memory);
  if (found == opened.end() || found->second.device != current_device) return cudaErrorInvalidValue;
  if (--found->second.times > 0) return cudaSuccess;
  on_device.erase(memory);
  opened.erase(found);
  return cudaSuccess;
}
int cuda_on_host_opened() {
  const std::lock_guard lock(mu);
  int times = 0;
  for (const auto& [place, each] : opened) times += each.times;
  return times;
}

}  // extern "C"
