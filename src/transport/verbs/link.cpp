// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/link.hpp"

#include <cstring>

#include "core/crc32c.hpp"
#include "transport/corruption.hpp"
#include "transport/verbs/pair_ends.hpp"

namespace ccoll::verbs {
namespace {

Failure gone(std::uint32_t rank) {
  return {ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
}

/// How long to wait for slices after a goodbye, which takes another path than they do.
constexpr std::chrono::seconds kSettled{1};

/// A checked slice's reserved field: a checksum over the rest of the header and the payload. The
/// completion gives the payload's length, so a corrupt length does no harm.
std::uint32_t checksum_of(SliceHeader header, const std::byte* data) {
  header.reserved = 0;
  return crc32c(crc32c(0, &header, sizeof header), data, header.bytes);
}

/// Takes the queue pair from its delivery, if it has come, and attaches it to `waiter`.
PairPointer take_over(End end, PairDelivery& delivery, const std::shared_ptr<Waiter>& waiter,
                      const std::shared_ptr<CompletionGroup>& completion_group,
                      std::optional<Failure>& failure) {
  auto pair = delivery.take();
  if (!pair) return nullptr;
  if (auto attached = (*pair)->attach(waiter, completion_group); !attached) {
    failure = std::move(attached.error());
    (*pair)->leave(end);
    return nullptr;
  }
  return std::move(*pair);
}

/// `pair`: null if it has not been taken over.
void let_go(End end, const PairPointer& pair, PairDelivery& delivery) {
  if (pair) return pair->leave(end);
  if (const auto untaken = delivery.take()) (*untaken)->ends().forsake(end);
}

}  // namespace

VerbsSendLink::~VerbsSendLink() { let_go(End::sends, pair_, *delivery_); }

bool VerbsSendLink::settle() {
  if (failure_) return false;
  if ((pair_ = take_over(End::sends, *delivery_, waiter_, completion_group_, failure_)))
    return true;
  const Failure* const failure = delivery_->failure();
  if (failure == nullptr) return false;
  auto* const transport = fallback_->transport();
  // A peer that has left cannot be reached another way either.
  if (transport == nullptr || failure->kind == ErrorKind::peer_lost) {
    failure_ = *failure;
    return false;
  }
  fallback_->settle(id_.to, failure->message);
  auto opened = transport->open_send(id_, waiter_);
  if (opened)
    fallback_link_ = std::move(*opened);
  else
    failure_ = std::move(opened.error());
  return false;
}

bool VerbsSendLink::has_room() {
  if (!pair_ && (fallback_link_ || !settle())) [[unlikely]]
    return fallback_link_ && fallback_->has_room(*fallback_link_, id_.to, fallback_works_);
  // Poll until nothing comes or there is room: only then is the queue armed for a sleep.
  while (!pair_->has_room())
    if (!pair_->poll() || pair_->failure() != nullptr) return pair_->has_room();
  return true;
}

std::byte* VerbsSendLink::room(std::size_t bytes) {
  if (fallback_link_) [[unlikely]]
    return fallback_link_->room(bytes);
  // Do not ask has_room() here: the queue pair may have failed since the caller asked.
  CCOLL_CHECK(pair_ && pair_->has_slot() && bytes <= SlotMemory::kSlotBytes, "{} bytes to rank {}",
              bytes, id_.to);
  return pair_->room();
}

void VerbsSendLink::push(const SliceHeader& header) {
  if (fallback_link_) [[unlikely]]
    return fallback_link_->push(header);
  CCOLL_CHECK(pair_ && pair_->has_slot(), "to rank {}, lane {}", id_.to, id_.lane);
  if (pair_->takes_slices()) pair_->push(sealed(header, pair_->room()));
}

void VerbsSendLink::lend(const SliceHeader& header, const std::byte* data, Copier copier) {
  if (fallback_link_) [[unlikely]]
    return fallback_link_->lend(header, data, copier);
  CCOLL_CHECK(pair_ && pair_->has_slot(), "to rank {}, lane {}", id_.to, id_.lane);
  if (!pair_->takes_slices()) return;
  const auto whole = sealed(header, data);
  if (pair_->lend(whole, data)) return;
  if (header.bytes > 0) std::memcpy(room(header.bytes), data, header.bytes);
  pair_->push(whole);
}

SliceHeader VerbsSendLink::sealed(SliceHeader header, const std::byte* data) const {
  if (is_checked_) header.reserved = checksum_of(header, data);
  return header;
}

void VerbsSendLink::announce(const std::byte* data, std::size_t bytes,
                             const std::shared_ptr<const DirectMemory>& memory) {
  if (fallback_link_) return fallback_link_->announce(data, bytes, nullptr);
  if (pair_) pair_->announce(data, bytes, pair_->registration_of(memory));
}

Result<std::shared_ptr<const DirectMemory>> VerbsSendLink::make_direct(
    const ExportedMemory& memory) {
  // The CPU computes checksums, and cannot read such memory.
  if (!pair_ || is_checked_) return cannot_be_direct();
  return pair_->make_direct(memory);
}

bool VerbsSendLink::progress() {
  if (fallback_link_) return fallback_link_->progress();
  return pair_ && pair_->poll();
}

void VerbsSendLink::revoke() {
  if (fallback_link_) fallback_link_->revoke();
  if (pair_) pair_->revoke();
}

void VerbsSendLink::peer_gone(Departure how, const Failure& why) {
  if (fallback_link_) return fallback_link_->peer_gone(how, why);
  if (how == Departure::left) return;
  // The queue pair still delivers what the peer's device has sent.
  if (pair_) pair_->fail_with(why);
  if (!failure_) failure_ = why;
}

const Failure* VerbsSendLink::failure() const {
  if (fallback_link_) return fallback_link_->failure();
  if (!failure_ && pair_) {
    if (pair_->failure() != nullptr)
      failure_ = *pair_->failure();
    else if (pair_->peer_left(End::receives))
      failure_ = gone(id_.to);
  }
  return failure_ ? &*failure_ : nullptr;
}

VerbsReceiveLink::VerbsReceiveLink(const LinkId& id, std::shared_ptr<PairDelivery> delivery,
                                   std::unique_ptr<ReceiveLink> fallback_link,
                                   std::shared_ptr<Waiter> waiter,
                                   std::shared_ptr<CompletionGroup> completion_group,
                                   std::optional<std::string> checked_as)
    : id_(id),
      delivery_(std::move(delivery)),
      waiter_(std::move(waiter)),
      completion_group_(std::move(completion_group)),
      checked_as_(std::move(checked_as)),
      fallback_link_(std::move(fallback_link)) {
  settle();
}

VerbsReceiveLink::~VerbsReceiveLink() { let_go(End::receives, pair_, *delivery_); }

bool VerbsReceiveLink::settle() {
  if (failure_ || (fallback_link_ && fallback_link_->connected())) return false;
  pair_ = take_over(End::receives, *delivery_, waiter_, completion_group_, failure_);
  if (pair_) fallback_link_.reset();
  return pair_ != nullptr;
}

bool VerbsReceiveLink::look() {
  if (is_seen_) return true;
  // Loops as has_room() does.
  while (!pair_->there()) {
    const bool is_moving = pair_->poll() && pair_->failure() == nullptr;
    if (!is_moving && !pair_->there()) return false;
  }
  if (failure_) return false;
  const auto front = pair_->front();
  if ((failure_ = fault_of(front))) {
    pair_->fail_with(*failure_);
    return false;
  }
  view_ = *front;
  if (checked_as_) view_.header.reserved = 0;
  return is_seen_ = true;
}

std::optional<Failure> VerbsReceiveLink::fault_of(const std::optional<View>& front) const {
  if (!front) {
    constexpr auto kSaid = "whose header does not describe the data";
    if (checked_as_) return corruption(*checked_as_, popped_, kSaid);
    return Failure{ErrorKind::corrupt,
                   fmt::format("rank {} sent slice {} over RDMA, {}", id_.from, popped_, kSaid),
                   id_.from};
  }
  const auto& header = front->header;
  if (!checked_as_) return std::nullopt;
  const auto found = checksum_of(header, front->data);
  if (found == header.reserved) return std::nullopt;
  return corruption(*checked_as_, popped_, fmt::format("header and {} bytes", header.bytes), found,
                    header.reserved);
}

const SliceHeader* VerbsReceiveLink::peek() {
  if (!pair_ && !settle()) [[unlikely]]
    return fallback_link_ ? fallback_link_->peek() : nullptr;
  return look() ? &view_.header : nullptr;
}

void VerbsReceiveLink::offer(std::byte* data, std::size_t bytes) {
  if (!pair_) [[unlikely]] {
    if (fallback_link_) fallback_link_->offer(data, bytes);
    return;
  }
  if (bytes < QueuePair::kWorthPlacing || is_offered_ || is_seen_ || announced_bytes_ > 0 ||
      pair_->there())
    return;
  is_offered_ = true;
  pair_->offer(pair_->popped_bytes(), data, bytes, true);
}

void VerbsReceiveLink::announce(std::byte* data, std::size_t bytes,
                                const std::shared_ptr<const DirectMemory>& memory) {
  const auto begin = announced_bytes_;
  announced_bytes_ += bytes;
  if (pair_ && data != nullptr && (memory || bytes >= QueuePair::kWorthPlacing))
    pair_->offer(begin, data, bytes, false, pair_->registration_of(memory));
}

Result<std::shared_ptr<const DirectMemory>> VerbsReceiveLink::make_direct(
    const ExportedMemory& memory) {
  if (!pair_ || checked_as_) return cannot_be_direct();
  return pair_->make_direct(memory);
}

void VerbsReceiveLink::revoke() {
  if (fallback_link_) fallback_link_->revoke();
  if (pair_) pair_->revoke();
}

void VerbsReceiveLink::peer_gone(Departure how, const Failure& why) {
  if (!pair_) settle();
  if (fallback_link_) return fallback_link_->peer_gone(how, why);
  if (how == Departure::left)
    goodbye_ = Goodbye{why, std::chrono::steady_clock::now() + kSettled};
  else if (pair_)
    pair_->fail_with(why);
  else if (!failure_)
    failure_ = why;
}

const ReceiveLink::View* VerbsReceiveLink::front() {
  if (!pair_ && !settle()) [[unlikely]]
    return fallback_link_ ? fallback_link_->front() : nullptr;
  return look() ? &view_ : nullptr;
}

bool VerbsReceiveLink::whole() const {
  if (pair_) return is_seen_ || (!failure_ && pair_->there());
  return fallback_link_ && fallback_link_->whole();
}

bool VerbsReceiveLink::pop() {
  if (!pair_) [[unlikely]]
    return fallback_link_->pop();
  is_seen_ = false;
  is_offered_ = false;
  popped_++;
  pair_->pop(view_.header.bytes);
  return true;
}

const Failure* VerbsReceiveLink::failure() const {
  if (!pair_) {
    if (failure_) return &*failure_;
    return fallback_link_ ? fallback_link_->failure() : nullptr;
  }
  // Slices sent before the peer left, or before the link broke, are still delivered.
  if (!failure_ && !pair_->there()) {
    if (pair_->failure() != nullptr)
      failure_ = *pair_->failure();
    else if (pair_->peer_left(End::sends))
      failure_ = gone(id_.from);
    else if (goodbye_ && goodbye_->is_over())
      failure_ = goodbye_->why;
  }
  return failure_ ? &*failure_ : nullptr;
}

}  // namespace ccoll::verbs
