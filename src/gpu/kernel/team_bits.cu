// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernel/team_kernel.cuh"

namespace ccoll::device {

const void* team_kernel_of_bits(bool by_words) { return team_kernel_of<Family::bits>(by_words); }

}  // namespace ccoll::device
