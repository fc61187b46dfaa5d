// SPDX-License-Identifier: Apache-2.0
// How slices travel through a queue pair (pushed or lent, to a slot or to the receiver's memory),
// and how the device gives back the caller's memory.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "core/crc32c.hpp"
#include "transport/verbs/queue_pair.hpp"

namespace ccoll::verbs {
namespace {

/// How long revoke() waits until the peer has confirmed the last word.
constexpr std::chrono::milliseconds kPatienceForFarewell{20};

std::uint64_t address_of(const std::byte* data) { return reinterpret_cast<std::uint64_t>(data); }

/// With checksums, the slice's checksum covers the rest of the head too. A second call undoes it.
void mix_checksum(SlotHead& head) {
  head.slice.reserved ^= crc32c(0, &head, offsetof(SlotHead, slice));
}

}  // namespace

void QueuePair::push(const SliceHeader& header) { send(header, room(), nullptr); }

bool QueuePair::lend(const SliceHeader& header, const std::byte* data) {
  auto memory = lent_.take(data, header.bytes);
  if (header.bytes < kWorthPlacing && !(memory && memory->is_exported())) return false;
  if (!memory) memory = device_.find(data, header.bytes);
  if (!memory) return false;
  send(header, data, memory.get());
  lent_.lend_until(sends_.posted());
  return true;
}

void QueuePair::send(const SliceHeader& header, const std::byte* payload,
                     const Registration* lent) {
  const Offer* offer = nullptr;
  if (header.bytes >= kWorthPlacing) {
    take_some();  // an offer may just have arrived
    offer = taken_.for_slice(sent_.bytes(), header.bytes);
  } else if (!taken_.empty()) {
    offer = taken_.for_slice(sent_.bytes(), header.bytes);
    if (offer != nullptr && offer->is_for_all == 0) offer = nullptr;
  }
  std::byte* const place = room() - sizeof(SlotHead);
  SlotHead head{taken_.seen(), offer != nullptr, header};
  mix_checksum(head);
  std::memcpy(place, &head, sizeof head);
  const auto key = ends_.out().registration->lkey;
  std::array<ibv_sge, 2> parts{{
      {address_of(place), sizeof head, key},
      {address_of(payload), header.bytes, lent != nullptr ? lent->local_key() : key},
  }};
  ibv_send_wr placing{};
  if (offer != nullptr) {
    placing = sends_.next(IBV_WR_RDMA_WRITE);
    placing.sg_list = &parts[1];
    placing.num_sge = 1;
    placing.wr.rdma.remote_addr = offer->address + (sent_.bytes() - offer->begin);
    placing.wr.rdma.rkey = offer->key;
  }
  sent_.push(header.bytes);
  const auto count = sent_.pushed();
  auto request = request_of(Word::data, count, lent != nullptr || count % kSignalEvery == 0);
  request.sg_list = parts.data();
  request.num_sge = 1;
  if (offer == nullptr && lent != nullptr) request.num_sge = 2;
  if (offer == nullptr && lent == nullptr) parts[0].length += header.bytes;
  if (request.num_sge == 1 && parts[0].length <= device_.most_inline())
    request.send_flags |= IBV_SEND_INLINE;
  ends_.out().to_same_place(request, address_of(place));
  placing.next = &request;
  post(offer != nullptr ? placing : request);
}

void QueuePair::announce(const std::byte* data, std::size_t bytes,
                         std::shared_ptr<const Registration> memory) {
  if (!memory) {
    if (bytes < kWorthRegistering || failure_ || device_.find(data, bytes)) return;
    memory = device_.register_memory(data, bytes);
  }
  if (memory) lent_.announce(std::move(memory), data, bytes);
}

Result<std::shared_ptr<const DirectMemory>> QueuePair::make_direct(
    const ExportedMemory& memory) const {
  if (failure_) return tl::unexpected(*failure_);
  auto made = device_.register_memory(memory);
  if (!made) return tl::unexpected(std::move(made.error()));
  return std::move(*made);
}

std::shared_ptr<const Registration> QueuePair::registration_of(
    std::shared_ptr<const DirectMemory> memory) const {
  if (!memory) return nullptr;
  auto registration = std::static_pointer_cast<const Registration>(std::move(memory));
  CCOLL_CHECK(device_.is_of_domain(*registration), "memory of another link, of {}",
              device_.path().device);
  return registration;
}

bool QueuePair::take_offer(std::uint32_t count) {
  // Without a slice that was pushed there may be no place yet.
  if (sent_.pushed() == 0 || count != counted(taken_.seen() + 1)) return false;
  Offer offer;
  std::memcpy(&offer, ends_.out().offer_place(taken_.seen()), sizeof offer);
  return taken_.take(offer);
}

void QueuePair::offer(std::uint64_t begin, std::byte* data, std::size_t bytes, bool is_of_one,
                      std::shared_ptr<const Registration> memory) {
  // The peer must be ready: a missed offer would be sent again, much later.
  if (received_.arrived() == 0 || failure_ || peer_left(End::sends) ||
      !sends_.has_room_for_word() || !made_.has_room())
    return;
  if (!memory) memory = device_.find(data, bytes);
  if (!memory && !is_of_one && bytes >= kWorthRegistering)
    memory = device_.register_memory(data, bytes);
  if (!memory) return;
  const auto& slots = ends_.in();
  std::byte* const place = slots.offer_place(made_.made());
  const auto key = memory->remote_key();
  const bool is_for_all = memory->is_exported();
  const Offer offer = made_.make({begin, bytes, address_of(data), key, is_of_one, is_for_all, 0},
                                 std::move(memory));
  std::memcpy(place, &offer, sizeof offer);
  ibv_sge part{address_of(place), sizeof offer, slots.registration->lkey};
  auto request = request_of(Word::offer, made_.made(), true);
  if (part.length <= device_.most_inline()) request.send_flags |= IBV_SEND_INLINE;
  request.sg_list = &part;
  request.num_sge = 1;
  slots.to_same_place(request, part.addr);
  post(request);
}

std::optional<ReceiveLink::View> QueuePair::front() {
  const std::byte* const place = ends_.in().payload(received_.popped());
  SlotHead head;
  std::memcpy(&head, place - sizeof head, sizeof head);
  mix_checksum(head);
  const auto bytes = head.slice.bytes;
  const auto came = received_.front_bytes();
  if (!made_.has_seen(head.offers_seen)) return std::nullopt;
  if (head.is_placed == 0) {
    if (bytes > SlotMemory::kSlotBytes || came != sizeof head + bytes) return std::nullopt;
    return ReceiveLink::View{head.slice, place};
  }
  const std::byte* const placed = made_.place_of(received_.popped_bytes(), bytes);
  if (came != sizeof head || placed == nullptr) return std::nullopt;
  return ReceiveLink::View{head.slice, placed};
}

void QueuePair::pop(std::size_t bytes) {
  received_.pop(bytes);
  made_.drop_before(received_.popped_bytes());
  // Delay credits: the peer may need this rank's next slice more urgently.
  if (received_.untold() > kCreditBatch) tell_popped();
}

void QueuePair::tell_popped() {
  if (sends_.has_room_for_word() && !peer_left(End::sends)) say(Word::credit, 0);
}

void QueuePair::revoke() {
  if (!device_.has_pair()) return;
  if (drained() && made_.empty()) return lent_.clear();
  if (!failure_ && left_ != kBothEnds) {
    // Without this, the peer's links to this rank would wait for answers that never come.
    say(Word::leaves, kBothEnds);
    const auto end = std::chrono::steady_clock::now() + kPatienceForFarewell;
    while (!failure_ && !sends_.is_idle() && std::chrono::steady_clock::now() < end)
      if (take_some() <= 0) std::this_thread::yield();
  }
  if (!failure_)
    failure_ = {
        ErrorKind::aborted,
        fmt::format("the link to rank {} was given up when its communicator failed", peer_->rank),
        std::nullopt};
  is_cause_known_ = true;
  device_.destroy_pair();
  lent_.clear();
  made_.clear();
}

}  // namespace ccoll::verbs
