// SPDX-License-Identifier: Apache-2.0

/// The parts of Highway's library that ccoll uses, because a static library is not available
/// everywhere. It selects the kernels for the baseline of this kind of processor; the others give
/// the same bits.

#include <hwy/highway.h>

namespace hwy {

std::int64_t SupportedTargets() { return HWY_STATIC_TARGET; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
