// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The word by which a rank says that it sleeps, so that peers with news ring only then.
///
///   sleeper                              peer with news
///   word ← 1             (seq_cst)       stores the news       (seq_cst)
///   checks for news again (seq_cst)      word == 1? then rings (seq_cst)
///   sleeps if there are none
///
/// All four have one order, so one side sees the other's store. The check must be seq_cst too: on
/// machines other than x86, an acquire load may come before the store of the word.

#include <atomic>
#include <cstdint>

namespace ccoll {

/// A template for the same reason as transport/shm/ring.hpp.
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
