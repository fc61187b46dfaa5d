// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/multicast_slots.hpp"

#include <functional>

namespace ccoll::shm {

std::shared_ptr<MulticastSlots> MulticastSlots::make(SlotBudget& budget) {
  auto share = budget.take_spare(kBytes);
  if (!share) return nullptr;
  auto memory = Segment::make("ccoll-multicast", kBytes);
  if (!memory) return nullptr;
  return std::shared_ptr<MulticastSlots>(new MulticastSlots(std::move(*memory), std::move(share)));
}

std::byte* MulticastSlots::room() {
  for (std::size_t i = 0; i < kSlots; i++) {
    const auto slot = (next_ + i) % kSlots;
    if (readers_[slot] != 0) continue;
    next_ = static_cast<std::uint32_t>(slot);
    return memory_->data() + slot * kSlotBytes;
  }
  return nullptr;
}

std::uint32_t MulticastSlots::number_of(const std::byte* room) const {
  const std::less<> less;
  if (less(room, memory_->data()) || !less(room, memory_->data() + kBytes)) return kSlots;
  return static_cast<std::uint32_t>(static_cast<std::size_t>(room - memory_->data()) / kSlotBytes);
}

}  // namespace ccoll::shm
