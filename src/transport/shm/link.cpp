// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/link.hpp"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace ccoll::shm {
namespace {

/// Smaller slices are copied in less time than a loan takes to look up and wait for.
constexpr std::size_t kWorthLending = 16 << 10;

/// Smaller slices are copied twice in less time than the kernel takes to copy them once.
constexpr std::size_t kWorthFetching = 16 << 10;

/// Smaller slices are written to each receiver in less time than finding a shared place takes.
constexpr std::size_t kWorthSharing = 1 << 10;

/// If oversubscribed, a sender uses more slots than kLinkSlots: the reader's turn gets only what
/// the sender's turn has written. Otherwise few slots are better, because they stay in a common
/// cache. Messages up to this size stay there anyway, even in both directions, and a sender that
/// writes all of one first waits for nobody.
constexpr std::size_t kMostFarAhead = kMostForLongSlots;

/// Time limit for a reader of a revoked slice. A reader that has stopped finds out later.
constexpr std::chrono::milliseconds kReadingPatience{50};

}  // namespace

Failure gone(std::uint32_t rank) {
  return {ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
}

void decline(const Offer& offer) {
  if (!offer.memory->is_mine()) return;
  Ring::at(offer.memory->data())->reader_gone.store(1);
  offer.sender->ring();
}

ShmSendLink::ShmSendLink(const LinkId& id, std::shared_ptr<HandOver> hand_over,
                         SlotBudget::Share slots, std::uint32_t lines, bool oversubscribed,
                         std::shared_ptr<Lender> lender, std::shared_ptr<HugePages> huge_pages,
                         std::shared_ptr<Fallback> fallback)
    : id_(id),
      hand_over_(std::move(hand_over)),
      lender_(std::move(lender)),
      huge_pages_(std::move(huge_pages)),
      fallback_(std::move(fallback)),
      ring_(Ring::at(hand_over_->memory->data())),
      slots_(std::move(slots)),
      lines_(lines),
      oversubscribed_(oversubscribed),
      grows_(oversubscribed && !ring_->is_thrifty),
      writer_(ring_, kLinkSlots, lines_,
              hand_over_->multicast ? hand_over_->multicast->readers() : nullptr) {}

ShmSendLink::~ShmSendLink() {
  if (!hand_over_->memory->is_mine()) return;
  ShmSendLink::revoke();
  // On the fallback, leave the ring alone: the receiver may have it, but listens elsewhere.
  if (fallback_link_) return;
  ring_->writer_gone.store(1);
  if (Doorbell* const doorbell = hand_over_->doorbell.load()) doorbell->ring();
}

bool ShmSendLink::settle() {
  if (failure_) return false;
  if (hand_over_->taken.take()) return settled_ = true;
  const Failure* const failure = hand_over_->taken.failure();
  if (failure == nullptr) return false;
  auto* const transport = fallback_->transport();
  if (transport == nullptr) {
    failure_ = *failure;
    return false;
  }
  fallback_->settle(id_.to, failure->message);
  slots_ = {};
  auto opened = transport->open_send(id_, hand_over_->waiter);
  if (opened)
    fallback_link_ = std::move(*opened);
  else
    failure_ = std::move(opened.error());
  return false;
}

bool ShmSendLink::is_deaf() const {
  // For a receiver that has left, slices count as sent, read or not.
  const Failure* const unheard = hand_over_->unheard.failure();
  return unheard != nullptr && unheard->kind != ErrorKind::peer_lost;
}

std::size_t ShmSendLink::good_bytes(std::uint64_t whole, Copier copier) const {
  if (fallback_link_) return fallback_link_->good_bytes(whole, copier);
  if (is_fetched() && copier == Copier::receiver) return kMostFetchedBytes;
  if (writer_.pushed() < kShortSlices) return kShortSlotBytes;
  return slot_bytes_for(whole);
}

bool ShmSendLink::has_room() {
  if (settled_) [[likely]] {
    if (writer_.has_room()) [[likely]]
      return !is_deaf();
    if (grows_ && writer_.pushed() >= kSlicesBeforeGrowth && writer_.lacks_slot()) grow();
    return false;
  }
  if (!fallback_link_ && settle()) return true;
  return fallback_link_ && fallback_->has_room(*fallback_link_, id_.to, fallback_works_);
}

void ShmSendLink::grow() {
  const std::size_t most = lines_ * kSlotBytes;
  if (slots_.bytes() >= most || slots_.grow(most - slots_.bytes())) writer_.use(lines_);
}

void ShmSendLink::announce(const std::byte* data, std::size_t bytes,
                           const std::shared_ptr<const DirectMemory>& /*memory*/) {
  if (fallback_link_) return fallback_link_->announce(data, bytes, nullptr);
  if (ring_->is_thrifty) return;
  grows_ = oversubscribed_ || bytes <= kMostFarAhead;
  if (!grows_) writer_.use(kLinkSlots);
}

std::byte* ShmSendLink::room(std::size_t bytes) {
  if (fallback_link_) [[unlikely]]
    return fallback_link_->room(bytes);
  // Not has_room(): the link may have failed since the caller asked.
  CCOLL_CHECK(settled_ && writer_.has_room() && bytes <= kSlotBytes, "{} bytes to rank {}", bytes,
              id_.to);
  return writer_.room(bytes);
}

void ShmSendLink::push(const SliceHeader& header) {
  if (fallback_link_) [[unlikely]]
    return fallback_link_->push(header);
  CCOLL_CHECK(settled_ && writer_.has_room(), "to rank {}, lane {}", id_.to, id_.lane);
  writer_.push(header);
  tell();
}

bool ShmSendLink::progress() {
  if (fallback_link_) return fallback_link_->progress();
  // After a failed call, the lent memory belongs to the caller.
  if (revoked_ || !writer_.remake()) return false;
  tell();
  return true;
}

void ShmSendLink::tell() {
  if (Doorbell* const doorbell = hand_over_->doorbell.load()) [[likely]]
    doorbell->ring_if_asleep();
}

void ShmSendLink::lend(const SliceHeader& header, const std::byte* data, Copier copier) {
  if (fallback_link_) [[unlikely]]
    return fallback_link_->lend(header, data, copier);
  CCOLL_CHECK(settled_ && writer_.has_room(), "to rank {}, lane {}", id_.to, id_.lane);
  if (header.bytes >= kWorthLending && copier != Copier::sender_always) {
    if (const auto place = lender_->find(data, header.bytes)) {
      huge_pages_->lend(data, header.bytes);
      writer_.lend(header, place->memory, place->offset);
      return tell();
    }
  }
  // A slice longer than a slot was cut for a fetching receiver; if it refuses, remake() copies it.
  const bool is_worth_it = copier == Copier::receiver && header.bytes >= kWorthFetching;
  if ((is_worth_it && is_fetched()) || header.bytes > kSlotBytes) {
    CCOLL_CHECK(header.bytes <= kMostFetchedBytes, "{} bytes to rank {}", header.bytes, id_.to);
    huge_pages_->lend(data, header.bytes);
    writer_.lend_unmapped(header, data);
    return tell();
  }
  if (header.bytes > 0) std::memcpy(room(header.bytes), data, header.bytes);
  push(header);
}

SendLink::Sent ShmSendLink::send(const SliceHeader& header, const std::byte* data) {
  if (!has_room()) return Sent::no_room;
  if (fallback_link_) [[unlikely]]
    return fallback_link_->send(header, data);
  copy_few(writer_.room(header.bytes), data, header.bytes);
  writer_.push(header);
  tell();
  return Sent::gone;
}

std::byte* ShmSendLink::shared_room(const std::byte* data, std::size_t bytes) {
  if (!settled_ || !hand_over_->multicast || bytes < kWorthSharing || bytes > kSlotBytes)
    return nullptr;
  if (data != nullptr && bytes >= kWorthLending && lender_->find(data, bytes)) return nullptr;
  return hand_over_->multicast->room();
}

bool ShmSendLink::push_shared(const SliceHeader& header, const std::byte* shared) {
  if (!settled_ || !hand_over_->multicast) return false;
  const auto slot = hand_over_->multicast->number_of(shared);
  if (slot == MulticastSlots::kSlots) return false;
  CCOLL_CHECK(writer_.has_room(), "to rank {}, lane {}", id_.to, id_.lane);
  writer_.push_multicast(header, slot, slot * kSlotBytes);
  tell();
  return true;
}

void ShmSendLink::begin_revoke() {
  if (fallback_link_) return fallback_link_->begin_revoke();
  if (revoked_ || writer_.drained()) return;
  writer_.revoke();
  revoked_ = std::chrono::steady_clock::now();
}

void ShmSendLink::revoke() {
  if (fallback_link_) return fallback_link_->revoke();
  begin_revoke();
  if (!revoked_) return;
  const auto end = *revoked_ + kReadingPatience;
  while (writer_.is_read() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

void ShmSendLink::peer_gone(Departure how, const Failure& why) {
  if (fallback_link_) return fallback_link_->peer_gone(how, why);
  if (!failure_) failure_ = why;
  // Then has_room() stops at the failure.
  if (how == Departure::lost) settled_ = false;
}

bool ShmSendLink::connected() const {
  return fallback_link_ ? fallback_link_->connected() : hand_over_->doorbell.load() != nullptr;
}

const Failure* ShmSendLink::failure() const {
  if (fallback_link_) return fallback_link_->failure();
  // Answer only once that is settled: slices pushed to a receiver that leaves count as sent, read
  // or not.
  if (!failure_ && settled_ && ring_->reader_gone.load() != 0) failure_ = gone(id_.to);
  if (const auto* unheard = hand_over_->unheard.failure(); unheard != nullptr && !failure_)
    if (settled_ || !hand_over_->taken.there()) failure_ = *unheard;
  return failure_ ? &*failure_ : nullptr;
}

LinkReport ShmSendLink::report() const {
  if (!fallback_link_) return {"shm", 0};
  auto report = fallback_link_->report();
  report.retries++;
  return report;
}

}  // namespace ccoll::shm
