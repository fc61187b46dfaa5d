// SPDX-License-Identifier: Apache-2.0

/// The driver's calls, by the names they are looked up by. A handle is a memfd; addresses are the
/// host's.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpu/program/tiny_words.hpp"
#include "kernels/device/layer.hpp"
#include "support/gpu/cuda_on_host/memory.hpp"
#include "support/gpu/cuda_on_host/streams.hpp"

extern "C" CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                          CUdeviceptr place);

namespace ccoll::testing::cuda {

using namespace device;

namespace {

bool exports = true;                          // guarded by mu
bool orders_writes = true, can_flush = true;  // guarded by mu
std::uint64_t flushes = 0;                    // guarded by mu

constexpr std::size_t kUnit = 64 << 10;

CUresult error_string(CUresult /*error*/, const char** text) {
  *text = "an error of the host's GPU";
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute which, CUdevice /*device*/) {
  const std::lock_guard lock(mu);
  *value = 1;
  if (which == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) *value = exports ? 1 : 0;
  if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) {
    *value = orders_writes ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                           : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
  }
  if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) {
    *value = can_flush ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS
                       : CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
  }
  return CUDA_SUCCESS;
}
CUresult context_state(CUdevice device, unsigned* /*flags*/, int* active) {
  *active = cuda_on_host_has_context(device) ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult granularity(std::size_t* unit, const CUmemAllocationProp* /*of*/,
                     CUmemAllocationGranularity_flags /*which*/) {
  *unit = kUnit;
  return CUDA_SUCCESS;
}
std::atomic<std::uint64_t> made_for_cards{0};

CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* of, unsigned long long /*flags*/) {
  if (bytes == 0 || bytes % kUnit != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kMostBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const int device = of == nullptr ? 0 : of->location.id;
  if (of != nullptr && of->allocFlags.gpuDirectRDMACapable != 0) made_for_cards += bytes;
  const int file = memfd_create(("GPU " + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::vector<std::uint64_t> noise(kUnit / sizeof(std::uint64_t));
  std::random_device some;
  for (std::size_t at = 0; at < bytes; at += kUnit) {
    std::ranges::fill(noise, tiny_word(1 + some() % 8, 0xcdcdcdcd));
    if (pwrite(file, noise.data(), kUnit, static_cast<off_t>(at)) != static_cast<ssize_t>(kUnit)) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(file);
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult export_handle(void* file, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType /*type*/, unsigned long long /*flags*/) {
  if (has_fault("export")) return CUDA_ERROR_NOT_SUPPORTED;
  const int copy = dup(static_cast<int>(handle));
  std::memcpy(file, &copy, sizeof copy);
  return copy < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult import_handle(CUmemGenericAllocationHandle* handle, void* file,
                       CUmemAllocationHandleType /*type*/) {
  static std::atomic<int> imports = 0;
  const bool is_refused = has_fault("import") || (has_fault("later") && ++imports > 2);
  if (is_refused) return CUDA_ERROR_NOT_SUPPORTED;
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(file));
  if (has_fault("apart")) {
    return create(handle, static_cast<std::size_t>(lseek(given, 0, SEEK_END)), nullptr, 0);
  }
  const int copy = dup(given);
  *handle = static_cast<CUmemGenericAllocationHandle>(copy);
  return copy < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t /*alignment*/,
                 CUdeviceptr /*wish*/, unsigned long long /*flags*/) {
  void* const place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(place);
  return CUDA_SUCCESS;
}
/// The memfd's name holds the device, even if another process created it.
int device_of(CUmemGenericAllocationHandle handle) {
  char name[64] = {};
  const auto link = "/proc/self/fd/" + std::to_string(handle);
  if (readlink(link.c_str(), name, sizeof name - 1) < 0) return 0;
  const char* const number = std::strstr(name, "GPU ");
  return number == nullptr ? 0 : std::atoi(number + 4);
}

CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t /*offset*/,
             CUmemGenericAllocationHandle handle, unsigned long long /*flags*/) {
  // CUDA maps memory without access at first.
  void* const place = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                           MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  const std::lock_guard lock(mu);
  on_device[reinterpret_cast<const void*>(address)] = {bytes, device_of(handle), std::set<int>()};
  return place == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                    std::size_t count) {
  const std::lock_guard lock(mu);
  Stretch& stretch = on_device[reinterpret_cast<const void*>(address)];
  for (std::size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (device != stretch.device && peering == kPeersApart) return CUDA_ERROR_NOT_SUPPORTED;
    stretch.open_to->insert(device);
  }
  const int error = mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return error != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(mu);
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  on_device.erase(reinterpret_cast<const void*>(address));
  void* const place = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return place == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr address, std::size_t bytes) {
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}
/// Exports the pages of exactly one whole allocation.
CUresult export_range(void* handle, CUdeviceptr begin, std::size_t bytes, CUmemRangeHandleType type,
                      unsigned long long flags) {
  const std::lock_guard lock(mu);
  const AllocationOnHost* const found = allocation_at(reinterpret_cast<const void*>(begin));
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 || found == nullptr ||
      !found->is_hidden() || reinterpret_cast<CUdeviceptr>(found->pages()) != begin ||
      found->bytes_of_pages() != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = dup(found->file());
  std::memcpy(handle, &file, sizeof file);
  return file < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult address_range(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr place) {
  const std::lock_guard lock(mu);
  if (!has_current_context) return CUDA_ERROR_INVALID_CONTEXT;
  const auto* const at = reinterpret_cast<const void*>(place);
  if (!contains(on_device, at)) return CUDA_ERROR_NOT_FOUND;
  const auto& [first, stretch] = *std::prev(on_device.upper_bound(at));
  if (begin != nullptr) *begin = reinterpret_cast<CUdeviceptr>(first);
  if (bytes != nullptr) *bytes = stretch.bytes;
  return CUDA_SUCCESS;
}
/// Waits while a queue of limited length is full; under "locked" it keeps the mutex meanwhile.
void wait_for_room(const CUstream_st& stream) {
  const bool is_locked = has_fault("locked");
  while (stream.queue.size() >= 1024 && (is_locked || has_fault("full")))
    if (!step_streams() && !is_locked) mu.rest();
}
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const std::lock_guard lock(mu);
  if (!has_current_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!known(stream)->capture) wait_for_room(*known(stream));
  if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) {
    if (!can_flush) return CUDA_ERROR_NOT_SUPPORTED;
    ++flushes;
    flags &= ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  }
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
  Item item;
  item.what = Item::wait;
  item.run = [] {};
  item.is_ready = [word = reinterpret_cast<const std::uint32_t*>(address), value] {
    // The comparison wraps around, as on a device.
    return static_cast<std::int32_t>(load_acquire(word) - value) >= 0 && !has_fault("words");
  };
  put(stream, std::move(item));
  return CUDA_SUCCESS;
}
CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const std::lock_guard lock(mu);
  if (!has_current_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!known(stream)->capture) wait_for_room(*known(stream));
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_NOT_SUPPORTED;
  put(stream,
      [word = reinterpret_cast<std::uint32_t*>(address), value] { store_release(word, value); });
  return CUDA_SUCCESS;
}

const std::map<std::string, void*> driver_calls = {
    {"cuPointerGetAttribute", reinterpret_cast<void*>(&cuPointerGetAttribute)},
    {"cuGetErrorString", reinterpret_cast<void*>(&error_string)},
    {"cuDeviceGetAttribute", reinterpret_cast<void*>(&device_attribute)},
    {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(&context_state)},
    {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
    {"cuMemCreate", reinterpret_cast<void*>(&create)},
    {"cuMemRelease", reinterpret_cast<void*>(&release)},
    {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_handle)},
    {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&import_handle)},
    {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)},
    {"cuMemAddressFree", reinterpret_cast<void*>(&unreserve)},
    {"cuMemMap", reinterpret_cast<void*>(&map)},
    {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
    {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
    {"cuMemGetAddressRange", reinterpret_cast<void*>(&address_range)},
    {"cuMemGetHandleForAddressRange", reinterpret_cast<void*>(&export_range)},
    {"cuStreamWaitValue32", reinterpret_cast<void*>(&wait_value)},
    {"cuStreamWriteValue32", reinterpret_cast<void*>(&write_value)},
};

}  // namespace

}  // namespace ccoll::testing::cuda

using namespace ccoll::testing::cuda;

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  const auto known = driver_calls.find(name);
  *result = known == driver_calls.end() ? cudaDriverEntryPointSymbolNotFound
                                        : cudaDriverEntryPointSuccess;
  *address = known == driver_calls.end() ? nullptr : known->second;
  return cudaSuccess;
}

void cuda_on_host_exports(bool does) {
  const std::lock_guard lock(mu);
  exports = does;
}
void cuda_on_host_orders_writes(bool does, bool flush) {
  const std::lock_guard lock(mu);
  orders_writes = does;
  can_flush = flush;
}
std::uint64_t cuda_on_host_flushes() {
  const std::lock_guard lock(mu);
  return flushes;
}
std::uint64_t cuda_on_host_made_for_cards() { return made_for_cards; }

}  // extern "C"
