// SPDX-License-Identifier: Apache-2.0
#include "engine/device/team_kernel.cuh"

namespace ccoll::device {

const void* team_kernel_of_integers() {
  return reinterpret_cast<const void*>(&team_kernel<Family::integers>);
}

}  // namespace ccoll::device
