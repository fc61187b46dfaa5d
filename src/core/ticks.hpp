// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The processor's own counter of time: what a clock costs least. Turned into times by whoever has
/// read it beside a clock.

#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

namespace ccoll {

inline std::uint64_t processor_ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

}  // namespace ccoll
