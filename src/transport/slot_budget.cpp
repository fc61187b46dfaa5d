// SPDX-License-Identifier: Apache-2.0
#include "transport/slot_budget.hpp"

namespace ccoll {

SlotBudget::Share SlotBudget::take(std::size_t bytes) {
  return take_within(limit_bytes(), bytes) ? Share(shared_from_this(), bytes) : Share();
}

SlotBudget::Share SlotBudget::take_unless_scarce(std::size_t bytes) {
  const auto limit = limit_bytes() - limit_bytes() / 4;
  return take_within(limit, bytes) ? Share(shared_from_this(), bytes) : Share();
}

SlotBudget::Share SlotBudget::take_spare(std::size_t bytes) {
  return take_within(limit_bytes() / 2, bytes) ? Share(shared_from_this(), bytes) : Share();
}

bool SlotBudget::Share::grow(std::size_t bytes) {
  if (!budget_ || !budget_->take_within(budget_->limit_bytes() / 2, bytes)) return false;
  bytes_ += bytes;
  return true;
}

bool SlotBudget::take_within(std::size_t limit, std::size_t bytes) {
  auto taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || taken > limit - bytes) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace ccoll
