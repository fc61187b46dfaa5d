// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The driver's calls without a counterpart in CUDA's runtime, found at run time: nothing links the
/// driver. Needs CUDA's headers, as cuda.hpp does.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "core/result.hpp"
#include "gpu/cuda/cuda.hpp"

namespace ccoll::device {

/// The calls are as CUDA 12.0 declares them.
inline constexpr unsigned kDriverVersion = 12000;

template <typename F>
Status find_driver_call(const char* name, F*& found) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  CCOLL_TRY(cuda_status(
      cudaGetDriverEntryPointByVersion(name, &address, kDriverVersion, cudaEnableDefault, &result),
      fmt::format("looking for {}", name)));
  if (result != cudaDriverEntryPointSuccess || address == nullptr) {
    return fail(ErrorKind::unsupported, "the driver has no {}", name);
  }
  found = reinterpret_cast<F*>(address);
  return {};
}

struct Driver {
  decltype(::cuGetErrorString)* get_error_string = nullptr;
  decltype(::cuDeviceGetAttribute)* device_get_attribute = nullptr;
  decltype(::cuDevicePrimaryCtxGetState)* context_state = nullptr;
  decltype(::cuMemGetAllocationGranularity)* granularity = nullptr;
  decltype(::cuMemCreate)* create = nullptr;
  decltype(::cuMemRelease)* release = nullptr;
  decltype(::cuMemExportToShareableHandle)* export_handle = nullptr;
  decltype(::cuMemImportFromShareableHandle)* import_handle = nullptr;
  decltype(::cuMemAddressReserve)* reserve = nullptr;
  decltype(::cuMemMap)* map = nullptr;
  decltype(::cuMemUnmap)* unmap = nullptr;
  decltype(::cuMemAddressFree)* unreserve = nullptr;
  decltype(::cuMemSetAccess)* set_access = nullptr;
  decltype(::cuPointerGetAttribute)* pointer_attribute = nullptr;
  decltype(::cuMemGetAddressRange)* address_range = nullptr;
  decltype(::cuMemGetHandleForAddressRange)* export_range = nullptr;  ///< null where there is none
  // These do not use decltype: cuda.h renames them.
  CUresult(CUDAAPI* wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
  CUresult(CUDAAPI* write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;

  static Result<Driver> open() {
    Driver driver;
    CCOLL_TRY(find_driver_call("cuGetErrorString", driver.get_error_string));
    CCOLL_TRY(find_driver_call("cuDeviceGetAttribute", driver.device_get_attribute));
    CCOLL_TRY(find_driver_call("cuDevicePrimaryCtxGetState", driver.context_state));
    CCOLL_TRY(find_driver_call("cuMemGetAllocationGranularity", driver.granularity));
    CCOLL_TRY(find_driver_call("cuMemCreate", driver.create));
    CCOLL_TRY(find_driver_call("cuMemRelease", driver.release));
    CCOLL_TRY(find_driver_call("cuMemExportToShareableHandle", driver.export_handle));
    CCOLL_TRY(find_driver_call("cuMemImportFromShareableHandle", driver.import_handle));
    CCOLL_TRY(find_driver_call("cuMemAddressReserve", driver.reserve));
    CCOLL_TRY(find_driver_call("cuMemMap", driver.map));
    CCOLL_TRY(find_driver_call("cuMemUnmap", driver.unmap));
    CCOLL_TRY(find_driver_call("cuMemAddressFree", driver.unreserve));
    CCOLL_TRY(find_driver_call("cuMemSetAccess", driver.set_access));
    CCOLL_TRY(find_driver_call("cuPointerGetAttribute", driver.pointer_attribute));
    CCOLL_TRY(find_driver_call("cuMemGetAddressRange", driver.address_range));
    (void)find_driver_call("cuMemGetHandleForAddressRange", driver.export_range);
    CCOLL_TRY(find_driver_call("cuStreamWaitValue32", driver.wait_value));
    CCOLL_TRY(find_driver_call("cuStreamWriteValue32", driver.write_value));
    return driver;
  }

  Status status(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    get_error_string(result, &text);
    return fail(result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::exhausted : ErrorKind::unsupported,
                "{}: {} ({})", what, text == nullptr ? "?" : text, static_cast<int>(result));
  }
};

/// Looks for the driver once.
inline Result<const Driver*> find_driver() {
  static const Result<Driver> opened = Driver::open();
  if (!opened) return tl::unexpected(opened.error());
  return &*opened;
}

}  // namespace ccoll::device
