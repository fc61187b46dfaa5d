// SPDX-License-Identifier: Apache-2.0
#include "engine/device/driver.hpp"

namespace ccoll::device {

bool has_context(int device) {
  const auto driver = find_driver();
  unsigned flags = 0;
  int active = 0;
  return !driver || (*driver)->context_state(device, &flags, &active) != CUDA_SUCCESS ||
         active != 0;
}

}  // namespace ccoll::device
