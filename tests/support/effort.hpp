// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How much a test is to try: `tools/test --reduced` for sanitizers, which are slow, and --full for
/// as much as there is time for.

#include <cstdlib>

namespace ccoll::testing {

inline bool reduced() { return std::getenv("CCOLL_TEST_REDUCED") != nullptr; }
inline bool full() { return std::getenv("CCOLL_TEST_FULL") != nullptr; }

/// One of three, as asked for.
template <typename T>
T by_effort(T if_reduced, T usual, T if_full) {
  return reduced() ? if_reduced : full() ? if_full : usual;
}

}  // namespace ccoll::testing
