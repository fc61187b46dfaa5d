// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How much a test tries: `tools/test --reduced` is for slow sanitizers, --full for as much as
/// there is time for.

#include <chrono>
#include <cstdlib>

namespace ccoll::testing {

inline bool reduced() { return std::getenv("CCOLL_TEST_REDUCED") != nullptr; }
inline bool full() { return std::getenv("CCOLL_TEST_FULL") != nullptr; }

/// One of three, as asked for.
template <typename T>
T by_effort(T if_reduced, T usual, T if_full) {
  return reduced() ? if_reduced : full() ? if_full : usual;
}

/// How long tests wait for what should come: a virtual machine may stand still for 20 s.
inline constexpr std::chrono::minutes kPatience{1};

/// Whether `holds` is true in one of five attempts, or of those within 20 s. It is for details that
/// a rank learns in time on a quiet machine, but may miss on an oversubscribed one.
template <typename Holds>
bool holds_at_last(const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int attempt = 0; attempt < 5 || std::chrono::steady_clock::now() < end; attempt++)
    if (holds()) return true;
  return false;
}

}  // namespace ccoll::testing
