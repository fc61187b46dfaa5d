// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Connections from outsiders: port scanners, other jobs, ranks with another token.

#include <cstdint>

#include "ccoll/version.hpp"

namespace ccoll {

/// Counts of all listeners of this process, stores included, since it began.
struct CCOLL_API Strangers {
  std::uint64_t refused = 0;  ///< connections dropped because they said no valid hello
  std::uint64_t evicted = 0;  ///< those of them that made way for newer ones
  friend bool operator==(const Strangers&, const Strangers&) = default;
};

/// From any thread; reads two counters.
CCOLL_API Strangers strangers();

}  // namespace ccoll
