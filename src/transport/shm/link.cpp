// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/link.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/bytes.hpp"
#include "system/descriptors.hpp"
#include "system/log.hpp"

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

Failure gone(std::uint32_t rank) {
  return {ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
}

}  // namespace

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
  return slot_bytes_for(whole);
}

bool ShmSendLink::lends_mapped(const std::byte* data, std::size_t bytes) {
  return !fallback_link_ && bytes >= kWorthLending && lender_->find(data, bytes).has_value();
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

void ShmSendLink::announce(const std::byte* data, std::size_t bytes) {
  if (fallback_link_) return fallback_link_->announce(data, bytes);
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
  if (data != nullptr && lends_mapped(data, bytes)) return nullptr;
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

ShmReceiveLink::ShmReceiveLink(const LinkId& id, std::shared_ptr<Delivery<Offer>> delivery,
                               std::shared_ptr<Borrowed> borrowed,
                               std::shared_ptr<SlotBudget> budget,
                               std::unique_ptr<ReceiveLink> fallback_link,
                               std::shared_ptr<Waiter> waiter)
    : id_(id),
      delivery_(std::move(delivery)),
      borrowed_(std::move(borrowed)),
      budget_(std::move(budget)),
      waiter_(std::move(waiter)),
      fallback_link_(std::move(fallback_link)) {
  settle();
}

ShmReceiveLink::~ShmReceiveLink() {
  if (reader_)
    decline(offer_);
  else if (const auto offer = delivery_->take())
    decline(*offer);
}

bool ShmReceiveLink::settle() {
  if (failure_ || is_elsewhere()) return false;
  if (!reader_ && !take_over()) return false;
  if (owes_doorbell_) hand_doorbell();
  // Wait for a slice: the sender may not have heard that the memory was taken, and fall back.
  if (fallback_link_ && !reader_->there()) return false;
  fallback_link_.reset();
  return settled_ = true;
}

bool ShmReceiveLink::take_over() {
  auto offer = delivery_->take();
  if (!offer) return false;
  offer_ = std::move(*offer);
  hand_doorbell();
  ring_ = Ring::at(offer_.memory->data());
  reader_.emplace(ring_);
  if (!offer_.sender_memory) return true;
  // Payloads without an offered place, such as those to be combined, need memory of this link.
  fetched_share_ = budget_->take_spare(kSlotBytes);
  if (fetched_share_) reader_->fetch();
  return true;
}

void ShmReceiveLink::hand_doorbell() {
  const auto& doorbell = *waiter_->doorbell();
  const auto sent = send_with_descriptors(
      offer_.connection.number(), net::Writer().number(doorbell.number()).bytes(),
      std::array{doorbell.chime().event().number(), doorbell.memory().number()});
  // Too many of this user's descriptors are in flight: try again later. After any other error, the
  // sender has gone, and its memory says so.
  owes_doorbell_ = !sent && sent.error().kind == ErrorKind::exhausted;
  if (!owes_doorbell_) offer_.connection.close();
}

const ReceiveLink::View* ShmReceiveLink::front() {
  if (!is_ready()) [[unlikely]]
    return fallback_link_ ? fallback_link_->front() : nullptr;
  if (view_.data != nullptr) return &view_;
  if (!look()) return nullptr;
  view_.data = Ring::Line::holds(view_.header.bytes) ? reader_->in_line() : find();
  return view_.data == nullptr ? nullptr : &view_;
}

const std::byte* ShmReceiveLink::find() {
  if (is_refused_ && !reader_->is_remade()) return nullptr;
  const auto place = reader_->place();
  if (is_refused_ && place.slot == Ring::kRemade && view_.header.bytes <= kMostFetchedBytes)
    return reader_->remade();
  if (place.slot == Ring::kUnmapped) return fetch(place.offset);
  view_.is_mapped = place.slot == Ring::kLent;
  if (place.slot > Ring::kUnmapped) return find_elsewhere(place);
  if (!has_slot_size(view_.header.bytes)) return nullptr;
  gives_back_ = ring_->is_thrifty && view_.header.bytes > Ring::kKeptBytes;
  return reader_->in_slot(place);
}

void ShmReceiveLink::give_back() {
  auto* const slot = ring_->slot(reader_->place().slot % Ring::kLines);
  offer_.memory->give_back(slot + Ring::kKeptBytes, kSlotBytes - Ring::kKeptBytes);
  gives_back_ = false;
}

const std::byte* ShmReceiveLink::fetch(std::uint64_t address) {
  const auto bytes = view_.header.bytes;
  const bool is_offered = offered_.size() == bytes;
  if (failure_ || (!is_offered && !has_slot_size(bytes))) return nullptr;
  if (!fetched_share_) {
    failure_ = {ErrorKind::corrupt,
                fmt::format("rank {} sent a slice to be read from its own memory, which this rank "
                            "had not asked for",
                            id_.from),
                id_.from};
    return nullptr;
  }
  auto* to = offered_.data();
  if (!is_offered) {
    if (!fetched_) fetched_ = std::make_unique_for_overwrite<std::byte[]>(kSlotBytes);
    to = fetched_.get();
  }
  const bool is_there = to == ahead_.data() && bytes <= ahead_.size() &&
                        address == ahead_address_ && view_.header.sequence == ahead_sequence_;
  if (!is_there) {
    ahead_ = {to, is_offered ? bytes_at_once(address) : bytes};
    ahead_address_ = address;
    ahead_sequence_ = view_.header.sequence;
    auto read = read_ahead();
    if (!read && ahead_.size() > bytes) {
      // Perhaps only a later slice is unreadable.
      ahead_ = ahead_.first(bytes);
      read = read_ahead();
    }
    if (!read) {
      ahead_ = {};
      refuse(read.error());
      return nullptr;
    }
  }
  ahead_ = ahead_.subspan(bytes);
  ahead_address_ += bytes;
  return to;
}

Status ShmReceiveLink::read_ahead() {
  // A read that was not taken back before its end is good, whatever happens later.
  taken_back_ = !reader_->begin_loan();
  if (taken_back_) return {};
  auto read = offer_.sender_memory->read(ahead_address_, ahead_.data(), ahead_.size());
  taken_back_ = !reader_->end_loan();
  if (taken_back_) return {};
  return read;
}

std::size_t ShmReceiveLink::bytes_at_once(std::uint64_t address) const {
  const auto& front = view_.header;
  std::size_t bytes = front.bytes;
  const auto most = std::min(kMostFetchedBytes, bytes + offered_beyond_);
  for (std::uint32_t behind = 1; behind < Ring::kLines && reader_->there(behind); behind++) {
    const auto next = reader_->header(behind);
    const auto place = reader_->place(behind);
    if (next.sequence != front.sequence || next.signature != front.signature) break;
    if (Ring::Line::holds(next.bytes) || bytes + next.bytes > most) break;
    if (place.slot != Ring::kUnmapped || place.offset != address + bytes) break;
    bytes += next.bytes;
  }
  return bytes;
}

void ShmReceiveLink::refuse(const Failure& why) {
  const auto message =
      fmt::format("the memory that rank {} sends cannot be read: {}", id_.from, why.message);
  if (why.kind == ErrorKind::peer_lost) {
    failure_ = {why.kind, message, id_.from};
    return;
  }
  if (!std::exchange(has_logged_refusal_, true))
    log().info("{}; its slices go through slots instead", message);
  is_refused_ = true;
  reader_->refuse();
  offer_.sender->ring_if_asleep();
}

bool ShmReceiveLink::has_slot_size(std::size_t bytes) {
  if (bytes <= kSlotBytes) [[likely]]
    return true;
  if (!failure_)
    failure_ = {
        ErrorKind::corrupt,
        fmt::format("rank {} sent a slice of {} bytes over shared memory; at most {} are allowed",
                    id_.from, bytes, kSlotBytes),
        id_.from};
  return false;
}

const std::byte* ShmReceiveLink::find_elsewhere(const Ring::Place& place) {
  const auto bytes = view_.header.bytes;
  if (view_.is_mapped && !loan_) loan_ = borrowed_->find(id_.from, place.memory);
  const Segment* const memory = view_.is_mapped ? loan_.get() : offer_.multicast.get();
  if (memory != nullptr && place.offset <= memory->size() && bytes <= memory->size() - place.offset)
    return memory->data() + place.offset;
  if (!failure_)
    failure_ = {ErrorKind::peer_lost,
                fmt::format("rank {} has freed memory that it was sending", id_.from), id_.from};
  return nullptr;
}

bool ShmReceiveLink::begin_read() {
  if (!settled_) [[unlikely]]
    return fallback_link_->begin_read();
  return !taken_back_ && (!view_.is_mapped || reader_->begin_loan());
}

const SliceHeader* ShmReceiveLink::peek() {
  if (!is_ready()) [[unlikely]]
    return fallback_link_ ? fallback_link_->peek() : nullptr;
  return look() ? &view_.header : nullptr;
}

void ShmReceiveLink::offer(std::byte* data, std::size_t bytes) {
  if (fallback_link_) fallback_link_->offer(data, bytes);
  offered_ = {data, bytes};
  offered_beyond_ = 0;
}

bool ShmReceiveLink::whole() const {
  if (reader_ && is_readable()) return true;
  return fallback_link_ && fallback_link_->whole();
}

bool ShmReceiveLink::connected() const { return reader_ || is_elsewhere(); }

bool ShmReceiveLink::pop() {
  if (!settled_) [[unlikely]]
    return fallback_link_->pop();
  bool good = true;
  if (view_.is_mapped) [[unlikely]] {
    good = reader_->end_loan();
    loan_.reset();
    view_.is_mapped = false;
  }
  if (gives_back_) [[unlikely]]
    give_back();
  looked_ = false;
  view_.data = nullptr;
  offered_ = {};
  offered_beyond_ = 0;
  is_refused_ = false;
  if (reader_->pop(view_.header.bytes)) offer_.sender->ring_if_asleep();
  return good;
}

void ShmReceiveLink::peer_gone(Departure how, const Failure& why) {
  gone_ = why;
  settle();
  if (fallback_link_) fallback_link_->peer_gone(how, why);
  // An offer by the sender would have come before the news of its loss.
  if (!reader_ && !fallback_link_ && !failure_ && how == Departure::lost) failure_ = why;
}

const Failure* ShmReceiveLink::failure() const {
  if ((!reader_ || is_elsewhere()) && fallback_link_) return fallback_link_->failure();
  // Slices sent before leaving are still delivered; look again for one that came just before. A
  // process that ended without destroying the link leaves no word in the ring.
  if (reader_ && !failure_ && (gone_ || ring_->writer_gone.load() != 0) && !is_readable())
    failure_ = gone_ ? *gone_ : gone(id_.from);
  return failure_ ? &*failure_ : nullptr;
}

}  // namespace ccoll::shm
