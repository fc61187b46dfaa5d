// SPDX-License-Identifier: Apache-2.0
// How slices travel through a queue pair (pushed or lent, to a slot or to the receiver's memory),
// and how the device gives back the caller's memory.
#include <algorithm>
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

std::uint32_t checksum_of(const Offer& offer) {
  return crc32c(0, &offer, offsetof(Offer, checksum));
}

/// With checksums, the slice's checksum covers the rest of the head too. A second call undoes it.
void mix_checksum(SlotHead& head) {
  head.slice.reserved ^= crc32c(0, &head, offsetof(SlotHead, slice));
}

}  // namespace

void QueuePair::push(const SliceHeader& header) { send(header, room(), nullptr); }

bool QueuePair::lend(const SliceHeader& header, const std::byte* data) {
  auto memory = take_announced(data, header.bytes);
  if (header.bytes < kWorthPlacing && !(memory && memory->is_exported())) return false;
  if (!memory) memory = registrations_->find(data, header.bytes);
  if (!memory) return false;
  send(header, data, memory.get());
  lent_until_ = posted_;
  return true;
}

void QueuePair::send(const SliceHeader& header, const std::byte* payload,
                     const Registration* lent) {
  const Offer* offer = nullptr;
  if (header.bytes >= kWorthPlacing) {
    take_some();  // an offer may just have arrived
    offer = offer_for(header.bytes);
  } else if (!offers_.empty()) {
    offer = offer_for(header.bytes);
    if (offer != nullptr && offer->is_for_all == 0) offer = nullptr;
  }
  std::byte* const place = room() - sizeof(SlotHead);
  SlotHead head{offers_seen_, offer != nullptr, header};
  mix_checksum(head);
  std::memcpy(place, &head, sizeof head);
  std::array<ibv_sge, 2> parts{{
      {address_of(place), sizeof head, out_.registration->lkey},
      {address_of(payload), header.bytes,
       lent != nullptr ? lent->local_key() : out_.registration->lkey},
  }};
  ibv_send_wr placing{};
  if (offer != nullptr) {
    placing.wr_id = ++posted_;
    placing.opcode = IBV_WR_RDMA_WRITE;
    placing.sg_list = &parts[1];
    placing.num_sge = 1;
    placing.wr.rdma.remote_addr = offer->address + (pushed_bytes_ - offer->begin);
    placing.wr.rdma.rkey = offer->key;
  }
  pushed_++;
  pushed_bytes_ += header.bytes;
  auto request = request_of(Word::data, pushed_, lent != nullptr || pushed_ % kSignalEvery == 0);
  request.sg_list = parts.data();
  request.num_sge = 1;
  if (offer == nullptr && lent != nullptr) request.num_sge = 2;
  if (offer == nullptr && lent == nullptr) parts[0].length += header.bytes;
  if (request.num_sge == 1 && parts[0].length <= most_inline_)
    request.send_flags |= IBV_SEND_INLINE;
  to_same_place(request, out_, address_of(place));
  placing.next = &request;
  post(offer != nullptr ? placing : request);
}

std::shared_ptr<const Registration> QueuePair::take_announced(const std::byte* data,
                                                              std::size_t bytes) {
  const auto next =
      std::ranges::find_if(announced_, [](const auto& each) { return each.left > 0; });
  if (next == announced_.end()) return nullptr;
  if (data != next->data + (next->bytes - next->left) || bytes > next->left) return nullptr;
  next->left -= bytes;
  return next->memory;
}

void QueuePair::announce(const std::byte* data, std::size_t bytes) {
  if (bytes < kWorthRegistering || failure_ || registrations_->find(data, bytes)) return;
  if (auto memory = Registration::make(devices_.library(), domain_, data, bytes))
    announced_.push_back({std::move(memory), data, bytes, bytes});
}

void QueuePair::announce(const std::byte* data, std::size_t bytes,
                         std::shared_ptr<const Registration> memory) {
  announced_.push_back({std::move(memory), data, bytes, bytes});
}

Result<std::shared_ptr<const DirectMemory>> QueuePair::make_direct(
    const ExportedMemory& memory) const {
  if (failure_) return tl::unexpected(*failure_);
  auto made = Registration::make(devices_.library(), domain_, memory);
  if (!made) return tl::unexpected(std::move(made.error()));
  return std::move(*made);
}

std::shared_ptr<const Registration> QueuePair::registration_of(
    std::shared_ptr<const DirectMemory> memory) const {
  auto registration = std::static_pointer_cast<const Registration>(std::move(memory));
  CCOLL_CHECK(registration->domain() == domain_, "memory of another link, of {}", path_.device);
  return registration;
}

void QueuePair::drop_announced() {
  std::erase_if(announced_, [](const Announced& each) { return each.left == 0; });
}

const Offer* QueuePair::offer_for(std::size_t bytes) {
  while (!offers_.empty() && offers_.front().begin + offers_.front().bytes <= pushed_bytes_)
    offers_.pop_front();
  if (offers_.empty()) return nullptr;
  const Offer& next = offers_.front();
  if (next.begin > pushed_bytes_ || bytes > next.begin + next.bytes - pushed_bytes_) return nullptr;
  return next.is_of_one != 0 && bytes != next.bytes ? nullptr : &next;
}

bool QueuePair::take_offer(std::uint32_t count) {
  if (pushed_ == 0 || count != ((offers_seen_ + 1) & kCountMask)) return false;
  Offer offer;
  std::memcpy(&offer, offer_place(out_, offers_seen_++), sizeof offer);
  if (offer.checksum != checksum_of(offer)) return false;
  offers_.push_back(offer);
  return true;
}

void QueuePair::offer(std::uint64_t begin, std::byte* data, std::size_t bytes, bool is_of_one,
                      std::shared_ptr<const Registration> memory) {
  // The peer must be ready: a missed offer would be sent again, much later.
  if (arrived_ == 0 || failure_ || peer_left(End::sends) || !may_say() ||
      offers_made_ - offers_known_ >= kOffers)
    return;
  if (!memory) memory = registrations_->find(data, bytes);
  if (!memory && !is_of_one && bytes >= kWorthRegistering)
    memory = Registration::make(devices_.library(), domain_, data, bytes);
  if (!memory) return;
  Offer offer{
      begin, bytes, address_of(data), memory->remote_key(), is_of_one, memory->is_exported(), 0};
  offer.checksum = checksum_of(offer);
  std::byte* const place = offer_place(in_, offers_made_++);
  std::memcpy(place, &offer, sizeof offer);
  wanted_.push_back({offer, std::move(memory)});
  ibv_sge part{address_of(place), sizeof offer, in_.registration->lkey};
  auto request = request_of(Word::offer, offers_made_, true);
  if (part.length <= most_inline_) request.send_flags |= IBV_SEND_INLINE;
  request.sg_list = &part;
  request.num_sge = 1;
  to_same_place(request, in_, part.addr);
  post(request);
}

std::optional<ReceiveLink::View> QueuePair::front() {
  const std::byte* const place = slot(in_, popped_) + kPayloadAt;
  SlotHead head;
  std::memcpy(&head, place - sizeof head, sizeof head);
  mix_checksum(head);
  const auto bytes = head.slice.bytes;
  const auto came = arrived_bytes_[popped_ % kSlots];
  if (head.offers_seen - offers_known_ > offers_made_ - offers_known_) return std::nullopt;
  offers_known_ = head.offers_seen;
  if (head.is_placed == 0) {
    if (bytes > kSlotBytes || came != sizeof head + bytes) return std::nullopt;
    return ReceiveLink::View{head.slice, place};
  }
  const auto wanted = std::ranges::find_if(wanted_, [&](const Wanted& each) {
    return each.offer.begin <= popped_bytes_ &&
           popped_bytes_ + bytes <= each.offer.begin + each.offer.bytes;
  });
  if (came != sizeof head || wanted == wanted_.end()) return std::nullopt;
  const auto& offer = wanted->offer;
  return ReceiveLink::View{head.slice, reinterpret_cast<const std::byte*>(
                                           offer.address + (popped_bytes_ - offer.begin))};
}

void QueuePair::pop(std::size_t bytes) {
  popped_++;
  popped_bytes_ += bytes;
  while (!wanted_.empty() &&
         wanted_.front().offer.begin + wanted_.front().offer.bytes <= popped_bytes_)
    wanted_.pop_front();
  // Delay credits: the peer may need this rank's next slice more urgently.
  if (popped_ - told_ > kCreditBatch) tell_popped();
}

void QueuePair::tell_popped() {
  if (may_say() && !peer_left(End::sends)) say(Word::credit, 0);
}

void QueuePair::revoke() {
  if (pair_ == nullptr) return;
  if (drained() && wanted_.empty()) return announced_.clear();
  if (!failure_ && left_ != kBothEnds) {
    // Without this, the peer's links to this rank would wait for answers that never come.
    say(Word::leaves, kBothEnds);
    const auto end = std::chrono::steady_clock::now() + kPatienceForFarewell;
    while (!failure_ && completed_ != posted_ && std::chrono::steady_clock::now() < end)
      if (take_some() <= 0) std::this_thread::yield();
  }
  if (!failure_)
    failure_ = {
        ErrorKind::aborted,
        fmt::format("the link to rank {} was given up when its communicator failed", path_.peer),
        std::nullopt};
  is_cause_known_ = true;
  // Returns once the device has let go of the memory.
  devices_.library().destroy_qp(std::exchange(pair_, nullptr));
  lent_until_ = 0;
  announced_.clear();
  wanted_.clear();
}

}  // namespace ccoll::verbs
