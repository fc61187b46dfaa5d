// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The processor's own time counter, the cheapest clock. Its readers also read a clock, and so
/// convert ticks to times.

#include <cstdint>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <chrono>
#endif

namespace ccoll {

inline std::uint64_t processor_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();  // <x86intrin.h> takes as long to read as <chrono>
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

}  // namespace ccoll
