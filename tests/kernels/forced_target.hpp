// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/targets.hpp"

namespace ccoll {

/// Makes the dispatch choose `target` while it lives.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::int64_t target) { hwy::GetChosenTarget().Update(target); }
  ~ForcedTarget() { hwy::GetChosenTarget().DeInit(); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

}  // namespace ccoll
