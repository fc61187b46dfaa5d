// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The driver's calls that the probe makes, found at run time: nothing links the driver.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "core/result.hpp"
#include "engine/device/cuda.hpp"

namespace ccoll::gpu_check {

/// As CUDA 12.0 declares them.
inline constexpr unsigned kDriverVersion = 12000;

template <typename F>
Status find(const char* name, F*& found) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  CCOLL_TRY(device::cuda_status(
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
  decltype(::cuMemGetAllocationGranularity)* granularity = nullptr;
  decltype(::cuMemCreate)* create = nullptr;
  decltype(::cuMemRelease)* release = nullptr;
  decltype(::cuMemExportToShareableHandle)* export_handle = nullptr;
  decltype(::cuMemImportFromShareableHandle)* import_handle = nullptr;
  decltype(::cuMemAddressReserve)* reserve = nullptr;
  decltype(::cuMemMap)* map = nullptr;
  decltype(::cuMemSetAccess)* set_access = nullptr;
  CUresult(CUDAAPI* wait_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
  CUresult(CUDAAPI* write_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;

  static Result<Driver> open() {
    Driver driver;
    CCOLL_TRY(find("cuGetErrorString", driver.get_error_string));
    CCOLL_TRY(find("cuDeviceGetAttribute", driver.device_get_attribute));
    CCOLL_TRY(find("cuMemGetAllocationGranularity", driver.granularity));
    CCOLL_TRY(find("cuMemCreate", driver.create));
    CCOLL_TRY(find("cuMemRelease", driver.release));
    CCOLL_TRY(find("cuMemExportToShareableHandle", driver.export_handle));
    CCOLL_TRY(find("cuMemImportFromShareableHandle", driver.import_handle));
    CCOLL_TRY(find("cuMemAddressReserve", driver.reserve));
    CCOLL_TRY(find("cuMemMap", driver.map));
    CCOLL_TRY(find("cuMemSetAccess", driver.set_access));
    CCOLL_TRY(find("cuStreamWaitValue64", driver.wait_value));
    CCOLL_TRY(find("cuStreamWriteValue64", driver.write_value));
    return driver;
  }

  Status status(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    get_error_string(result, &text);
    return fail(ErrorKind::unsupported, "{}: {} ({})", what, text == nullptr ? "?" : text,
                static_cast<int>(result));
  }
};

}  // namespace ccoll::gpu_check
