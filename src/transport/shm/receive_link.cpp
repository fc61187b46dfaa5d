// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/link.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/bytes.hpp"
#include "system/descriptors.hpp"
#include "system/log.hpp"

namespace ccoll::shm {

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
  if (owes_doorbell_) pay_doorbell();
  // Wait for a slice: the sender may not have heard that the memory was taken, and fall back.
  if (fallback_link_ && !reader_->there()) return false;
  fallback_link_.reset();
  return settled_ = true;
}

bool ShmReceiveLink::take_over() {
  auto offer = delivery_->take();
  if (!offer) return false;
  offer_ = std::move(*offer);
  // The service thread has handed the bell over if this end was open when the offer came.
  if (offer_.connection.open()) pay_doorbell();
  ring_ = Ring::at(offer_.memory->data());
  reader_.emplace(ring_);
  if (!offer_.sender_memory) return true;
  // Payloads without an offered place, such as those to be combined, need memory of this link.
  fetched_share_ = budget_->take_spare(kSlotBytes);
  if (fetched_share_) reader_->fetch();
  return true;
}

void hand_doorbell(Offer& offer, const Doorbell& receiver) {
  const auto sent = send_with_descriptors(
      offer.connection.number(), net::Writer().number(receiver.number()).bytes(),
      std::array{receiver.chime().event().number(), receiver.memory().number()});
  // After any other error the sender has gone, and its memory says so.
  if (sent || sent.error().kind != ErrorKind::exhausted) offer.connection.close();
}

void ShmReceiveLink::pay_doorbell() {
  hand_doorbell(offer_, *waiter_->doorbell());
  owes_doorbell_ = offer_.connection.open();
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
