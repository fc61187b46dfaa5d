// SPDX-License-Identifier: Apache-2.0
// The kind of memory that an address belongs to, asked of a driver that is there already.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>

#include "gpu/cuda/cuda.hpp"
#include "gpu/way.hpp"
#include "system/runtime.hpp"

namespace ccoll::device {

namespace {

using AskPointer = decltype(::cuPointerGetAttribute);

/// Null as long as nothing in this process has loaded the driver.
struct InDriver {
  std::atomic<AskPointer*> ask{nullptr};
};

AskPointer* find_in_driver() {
  auto& found = Runtime::one<InDriver>().ask;
  if (auto* const known = found.load(std::memory_order_relaxed)) return known;
  constexpr const char* kName = "cuPointerGetAttribute";
  void* call = dlsym(RTLD_DEFAULT, kName);
  if (void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); driver && !call) {
    call = dlsym(driver, kName);
  }
  found.store(reinterpret_cast<AskPointer*>(call), std::memory_order_relaxed);
  return found;
}

}  // namespace

bool is_cuda_in_use() {
  AskPointer* const ask = find_in_driver();
  if (ask == nullptr) return false;
  CUmemorytype type{};
  return ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&type)) !=
         CUDA_ERROR_NOT_INITIALIZED;
}

std::optional<int> device_of(const void* address) {
  AskPointer* const ask = find_in_driver();
  if (ask == nullptr) return std::nullopt;
  CUmemorytype type{};
  const auto place = reinterpret_cast<CUdeviceptr>(address);
  // This is an error for memory that CUDA does not know.
  if (ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, place) != CUDA_SUCCESS) return std::nullopt;
  unsigned managed = 0;
  if (type != CU_MEMORYTYPE_DEVICE &&
      (ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, place) != CUDA_SUCCESS || managed == 0)) {
    return std::nullopt;
  }
  int device = 0;
  if (ask(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, place) != CUDA_SUCCESS) return 0;
  return device;
}

std::optional<MemoryRange> allocation_of(const void* address) {
  AskPointer* const ask = find_in_driver();
  if (ask == nullptr) return std::nullopt;
  const auto place = reinterpret_cast<CUdeviceptr>(address);
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  if (ask(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, place) != CUDA_SUCCESS ||
      ask(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, place) != CUDA_SUCCESS || bytes == 0) {
    return std::nullopt;
  }
  return MemoryRange{reinterpret_cast<std::byte*>(begin), bytes};
}

std::uint64_t bytes_of_allocation_from(const void* address) {
  const auto found = allocation_of(address);
  if (!found) return UINT64_MAX;
  return static_cast<std::uint64_t>(found->data + found->bytes -
                                    static_cast<const std::byte*>(address));
}

}  // namespace ccoll::device
