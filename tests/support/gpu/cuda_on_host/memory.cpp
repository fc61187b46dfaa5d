// SPDX-License-Identifier: Apache-2.0

/// Memory of the devices and pinned memory of the host: its allocation, its owners and its reach.

#include "support/gpu/cuda_on_host/memory.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/gpu/cuda_on_host/streams.hpp"

namespace ccoll::testing::cuda {

namespace {

/// The allocations of cudaMalloc, by first page.
auto& allocations = *new std::map<const std::byte*, std::unique_ptr<AllocationOnHost>>;
bool hides = false;  // guarded by mu
thread_local bool is_full = false;

cudaError_t allocate(void** memory, std::size_t bytes, Stretches& among) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  if (is_full || bytes > kMostBytes) return cudaErrorMemoryAllocation;
  if (&among == &on_device) {
    auto made = AllocationOnHost::make(bytes, current_device, hides);
    if (made == nullptr) return cudaErrorMemoryAllocation;
    *memory = made->begin();
    on_device[*memory] = {bytes, current_device};
    allocations[made->pages()] = std::move(made);
    return cudaSuccess;
  }
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xcd, bytes);
  among[*memory] = {bytes, current_device};
  return cudaSuccess;
}

/// Frees synchronise: all streams of the process, on every device, run empty first.
cudaError_t prepare_to_free() {
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  return drain([] {
    return std::ranges::all_of(streams,
                               [](const CUstream_st* stream) { return stream->queue.empty(); });
  });
}

}  // namespace

const Stretch* find(const Stretches& stretches, const void* place) {
  const auto next = stretches.upper_bound(place);
  if (next == stretches.begin()) return nullptr;
  const auto& [begin, found] = *std::prev(next);
  return place < static_cast<const std::byte*>(begin) + found.bytes ? &found : nullptr;
}

bool contains(const Stretches& stretches, const void* place) {
  return find(stretches, place) != nullptr;
}

bool reaches(int device, const void* place) {
  const Stretch* const there = find(on_device, place);
  if (there == nullptr || there->device == device) return true;
  return there->open_to ? there->open_to->contains(device)
                        : peers.contains({device, there->device});
}

void check_reach(int device, const void* place) {
  if (place != nullptr && !reaches(device, place)) broken_by = cudaErrorIllegalAddress;
}

AllocationOnHost* allocation_at(const void* place) {
  const auto* const at = static_cast<const std::byte*>(place);
  const auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return nullptr;
  AllocationOnHost& found = *std::prev(next)->second;
  return at < found.pages() + found.bytes_of_pages() ? &found : nullptr;
}

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes, on_device);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return allocate(memory, bytes, pinned);
}
cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(mu);
  if (const cudaError_t error = prepare_to_free(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  const AllocationOnHost* const allocation = allocation_at(memory);
  if (allocation == nullptr || allocation->begin() != memory) return cudaErrorInvalidValue;
  if (allocation->is_open_elsewhere()) {
    std::fputs("memory was freed that another process has open: what then happens is undefined\n",
               stderr);
    std::abort();
  }
  on_device.erase(memory);
  allocations.erase(allocation->pages());
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(mu);
  if (const cudaError_t error = prepare_to_free(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  const auto found = pinned.find(memory);
  if (found == pinned.end() || found->second.is_registered) return cudaErrorInvalidValue;
  pinned.erase(found);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** there, void* here, unsigned /*flags*/) {
  use_current_device();
  const std::lock_guard lock(mu);
  if (!pinned.contains(here)) return cudaErrorInvalidValue;
  *there = here;
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const Stretch registered{.bytes = bytes, .is_registered = true};
  return pinned.emplace(memory, registered).second ? cudaSuccess
                                                   : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(mu);
  use_current_device();
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const auto found = pinned.find(memory);
  if (found == pinned.end() || !found->second.is_registered)
    return cudaErrorHostMemoryNotRegistered;
  pinned.erase(found);
  return cudaSuccess;
}

// ccoll looks it up by name; programs linked with --export-dynamic provide it.
[[gnu::visibility("default")]] CUresult cuPointerGetAttribute(void* data,
                                                              CUpointer_attribute attribute,
                                                              CUdeviceptr place) {
  const std::lock_guard lock(mu);
  const auto* const at = reinterpret_cast<const void*>(place);
  const bool is_devices = contains(on_device, at);
  if (!is_devices && !contains(pinned, at)) return CUDA_ERROR_INVALID_VALUE;
  const auto tell = [data](auto value) { std::memcpy(data, &value, sizeof value); };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      tell(is_devices ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      tell(0U);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      tell(contains(of_another, at) ? device_count : find(on_device, at)->device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      tell(reinterpret_cast<CUdeviceptr>(std::prev(on_device.upper_bound(at))->first));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      tell(std::prev(on_device.upper_bound(at))->second.bytes);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      tell(is_devices && !find(on_device, at)->open_to ? 1U : 0U);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      tell(reaches(current_device, at) ? 3U : 0U);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

void cuda_on_host_is_full(bool is) { is_full = is; }
void cuda_on_host_moves(const void* memory, std::size_t bytes, bool is_there) {
  const std::lock_guard lock(mu);
  of_another.erase(memory);
  if (is_there) of_another[memory] = {bytes};
}
void cuda_on_host_closes(const void* memory) {
  const std::lock_guard lock(mu);
  Stretch& stretch = on_device.at(memory);
  stretch.open_to = std::set{stretch.device};
}
void cuda_on_host_hides_memory(bool does) {
  const std::lock_guard lock(mu);
  hides = does;
}
std::size_t cuda_on_host_registered() {
  const std::lock_guard lock(mu);
  return static_cast<std::size_t>(
      std::ranges::count_if(pinned, [](const auto& each) { return each.second.is_registered; }));
}

}  // extern "C"
