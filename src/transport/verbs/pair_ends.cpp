// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/pair_ends.hpp"

#include <utility>

namespace ccoll::verbs {

bool PairEnds::is_free(End end, std::optional<std::uint32_t> number) {
  std::lock_guard lock(mutex_);
  return !is_over_ && !memory_of(end).memory &&
         (!number || peer_number_.value_or(*number) == *number);
}

Result<QueuePairAddress> PairEnds::open(End end, SlotBudget::Share share) {
  // A shared mapping: after fork(), the device and this process keep the same pages.
  auto memory = Segment::make("ccoll-rdma", SlotMemory::kBytes);
  if (!memory) return tl::unexpected(memory.error());
  (*memory)->close_file();
  std::lock_guard lock(mutex_);
  SlotMemory& slots = memory_of(end);
  slots.share = std::move(share);
  slots.memory = std::move(*memory);
  const auto registered = device_.register_slots(slots.memory->data(), SlotMemory::kBytes);
  if (!registered) return tl::unexpected(registered.error());
  slots.registration = *registered;
  auto address = device_.address();
  address.key = slots.registration->rkey;
  address.base = reinterpret_cast<std::uint64_t>(slots.memory->data());
  return address;
}

Status PairEnds::connect(End end, const QueuePairAddress& peer) {
  std::lock_guard lock(mutex_);
  if (!peer_number_) {
    peer_number_ = peer.number;
    connected_ = device_.connect(peer);
  }
  if (!connected_) return connected_;
  if (*peer_number_ != peer.number)
    return fail(ErrorKind::unsupported, "it answers for another queue pair than before");
  memory_of(end).peer_key = peer.key;
  memory_of(end).peer_base = peer.base;
  return {};
}

void PairEnds::close() {
  std::lock_guard lock(mutex_);
  is_over_ = true;
}

void PairEnds::release() {
  for (const auto* const slots : {&out_, &in_})
    if (slots->registration != nullptr) device_.release_slots(slots->registration);
}

}  // namespace ccoll::verbs
