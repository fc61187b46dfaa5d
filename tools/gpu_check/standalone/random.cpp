// SPDX-License-Identifier: Apache-2.0

/// What the standard library's random_device takes of glibc since 2.36, for older ones.

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  // So few bytes come at once, but before the kernel's first.
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
