// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/owner_flag.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>

namespace ccoll {
namespace {

/// How often wait() looks before it sleeps. So many looks take about as long as a sleep costs.
constexpr int kLooks = 1000;

/// The word that the kernel looks at: the ticket that has the flag.
const std::uint32_t* word_of(const std::atomic<std::uint64_t>* tickets) {
  static_assert(sizeof *tickets == sizeof(std::uint64_t) &&
                std::atomic<std::uint64_t>::is_always_lock_free);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(tickets);
  return std::endian::native == std::endian::little ? words : words + 1;
}

}  // namespace

Owned OwnerFlag::wait(std::uint32_t ticket) {
  for (int looks = 0;; looks++) {
    const auto now = serving(tickets_.load(std::memory_order_acquire));
    if (now == ticket) return {};
    if (looks >= kLooks)
      syscall(SYS_futex, word_of(&tickets_), FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
  }
}

void OwnerFlag::wake() {
  // Wake all: the kernel does not know whose turn it is.
  syscall(SYS_futex, word_of(&tickets_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ccoll
