// SPDX-License-Identifier: Apache-2.0
#include "transport/slot_budget.hpp"

namespace ccoll {

SlotBudget& SlotBudget::of_process() {
  static SlotBudget instance;
  return instance;
}

bool SlotBudget::take(std::size_t bytes, std::size_t limit) {
  auto taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || taken > limit - bytes) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace ccoll
