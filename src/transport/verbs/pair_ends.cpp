// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/pair_ends.hpp"

#include <utility>

namespace ccoll::verbs {

bool PairEnds::is_free(End end, std::optional<std::uint32_t> number) {
  const auto connection = connection_.lock();
  return !connection->is_over && !memory_of(end).memory &&
         (!number || connection->peer_number.value_or(*number) == *number);
}

Result<QueuePairAddress> PairEnds::open(End end, SlotBudget::Share share) {
  // A shared mapping: after fork(), the device and this process keep the same pages.
  auto memory = Segment::make("ccoll-rdma", SlotMemory::kBytes);
  if (!memory) return tl::unexpected(memory.error());
  (*memory)->close_file();
  const auto connection = connection_.lock();
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
  const auto connection = connection_.lock();
  if (!connection->peer_number) {
    connection->peer_number = peer.number;
    connection->outcome = device_.connect(peer);
  }
  if (!connection->outcome) return connection->outcome;
  if (*connection->peer_number != peer.number)
    return fail(ErrorKind::unsupported, "it answers for another queue pair than before");
  memory_of(end).peer_key = peer.key;
  memory_of(end).peer_base = peer.base;
  return {};
}

void PairEnds::close() { connection_.lock()->is_over = true; }

void PairEnds::release() {
  for (const auto* const slots : {&out_, &in_})
    if (slots->registration != nullptr) device_.release_slots(slots->registration);
}

}  // namespace ccoll::verbs
