// SPDX-License-Identifier: Apache-2.0

/// All that ccoll takes of Highway's library, which there is no static form of everywhere. The
/// kernels that run are those for the least that every processor of this kind has; the others equal
/// them bit by bit.

#include <hwy/highway.h>

namespace hwy {

std::int64_t SupportedTargets() { return HWY_STATIC_TARGET; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
