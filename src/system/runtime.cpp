// SPDX-License-Identifier: Apache-2.0
#include "system/runtime.hpp"

#include <cstddef>
#include <mutex>

#include "system/locks.hpp"

namespace ccoll {
namespace {

/// Parts that tests have left behind: they are reachable, as threads may still use them.
std::vector<void*>& left_behind() {
  static auto& all = *new std::vector<void*>;
  return all;
}

}  // namespace

void* Runtime::make(Slot& slot) {
  // Each part may need others, so the same thread may come here again.
  static auto& mutex = *new std::recursive_mutex;
  const NoFork no_fork;
  const std::lock_guard lock(mutex);
  if (auto* const made = slot.made.load(std::memory_order_relaxed)) return made;
  auto* const made = slot.construct();
  if (!slot.is_known) {
    slot.is_known = true;
    slot.next = newest;
    newest = &slot;
  }
  slot.made.store(made, std::memory_order_release);
  return made;
}

Runtime::Afresh::Afresh() {
  for (auto* slot = newest; slot != nullptr; slot = slot->next)
    before_.push_back(slot->made.exchange(nullptr));
}

Runtime::Afresh::~Afresh() {
  // Slots are put in front: those that are new since stand before the others.
  std::vector<Slot*> slots;
  for (auto* slot = newest; slot != nullptr; slot = slot->next) slots.push_back(slot);
  const auto newer = slots.size() - before_.size();
  for (std::size_t i = 0; i < slots.size(); i++) {
    // A part that only the test has used stays: its next user finds it as the first one would.
    if (i < newer) continue;
    if (auto* const made = slots[i]->made.exchange(before_[i - newer]))
      left_behind().push_back(made);
  }
}

}  // namespace ccoll
