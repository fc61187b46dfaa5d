// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gpu/cuda/cuda.hpp"
#include "gpu/device_way.hpp"

namespace ccoll::device {

Result<std::string> identity_of(int device) {
  cudaDeviceProp properties;
  CCOLL_TRY(cuda_status(cudaGetDeviceProperties(&properties, device),
                        fmt::format("asking which GPU {} is", device)));
  // A part of a GPU (MIG) has its own.
  std::string uuid;
  for (const char byte : properties.uuid.bytes)
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return fmt::format("{} {} {:x}:{:x}:{:x}", properties.name, uuid, properties.pciDomainID,
                     properties.pciBusID, properties.pciDeviceID);
}

}  // namespace ccoll::device
