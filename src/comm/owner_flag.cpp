// SPDX-License-Identifier: Apache-2.0
#include "comm/owner_flag.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace ccoll {
namespace {

/// Of looks before a sleep: about what it costs to sleep.
constexpr int kLooks = 1000;

}  // namespace

void OwnerFlag::wait(std::uint32_t ticket) {
  static_assert(sizeof serving_ == sizeof(std::uint32_t) && decltype(serving_)::is_always_lock_free,
                "the kernel looks at it");
  for (int looks = 0;; looks++) {
    const auto serving = serving_.load(std::memory_order_acquire);
    if (serving == ticket) return;
    if (looks >= kLooks)
      syscall(SYS_futex, &serving_, FUTEX_WAIT_PRIVATE, serving, nullptr, nullptr, 0);
  }
}

void OwnerFlag::wake() {
  // All: the kernel does not know whose turn it is.
  syscall(SYS_futex, &serving_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ccoll
