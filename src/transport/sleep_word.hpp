// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The word by which a rank says that it sleeps, so that whoever has news for it rings only then.
///
///   sleeper                              whoever has news
///   word ← 1             (seq_cst)       news stored            (seq_cst)
///   looks for news once more (seq_cst)   word == 1?             (seq_cst): rings
///   sleeps unless there is some
///
/// One of the two sees the other's store, for there is one order of all four. That takes a seq_cst
/// look too: an acquire load may come before the store of the word, on machines other than x86.

#include <atomic>
#include <cstdint>

namespace ccoll {

/// Templates as transport/shm/ring.hpp is, and for the same reason.
template <template <typename> typename Atomic>
class BasicSleepWord {
 public:
  void set_asleep() { asleep_.store(1); }
  void set_awake() { asleep_.store(0, std::memory_order_relaxed); }
  /// For the sleeper's own side.
  bool asleep() const { return asleep_.load(std::memory_order_relaxed) != 0; }
  /// Whether the sleeper must be rung, after news were stored.
  bool wants_ring() const { return asleep_.load() != 0; }

 private:
  Atomic<std::uint32_t> asleep_{0};
};

using SleepWord = BasicSleepWord<std::atomic>;
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace ccoll
