// SPDX-License-Identifier: Apache-2.0

/// Replaces what the standard library's random_device needs from glibc 2.36, for older ones.

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  // So few bytes come in one call, except before the kernel's generator is ready.
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
