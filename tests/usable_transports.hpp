// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The transports to test: those of the table that work on this machine.

#include <cstdlib>
#include <vector>

#include "transport/transport.hpp"

namespace ccoll::testing {

/// If CCOLL_TEST_TRANSPORT names one, only that.
inline std::vector<TransportKind> usable_transports() {
  const char* const named = std::getenv("CCOLL_TEST_TRANSPORT");
  std::vector<TransportKind> usable;
  for (const auto& kind : transports()) {
    const bool works = kind.name != "verbs" || usable_fabrics().value() != 0;
    if (named == nullptr ? works : kind.name == named) usable.push_back(kind);
  }
  return usable;
}

}  // namespace ccoll::testing
