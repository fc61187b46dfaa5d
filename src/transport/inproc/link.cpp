// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/link.hpp"

#include <thread>

namespace ccoll::inproc {
namespace {

Failure gone(std::uint32_t rank) {
  return {ErrorKind::peer_lost, fmt::format("rank {} has left", rank), rank};
}

}  // namespace

InprocSendLink::InprocSendLink(const LinkId& id, std::shared_ptr<Waiter> waiter,
                               const Resident& receiver)
    : id_(id), fifo_(meet(id, End::sender, receiver)) {
  fifo_->sender.hang(std::move(waiter));
}

InprocSendLink::~InprocSendLink() {
  revoke();
  fifo_->sender_gone.store(true);
  fifo_->receiver.ring();
  part(id_, fifo_);
}

bool InprocSendLink::has_room() {
  if (pushed_ - popped_ < Fifo::kSlots) return true;
  popped_ = fifo_->tail.load();
  return pushed_ - popped_ < Fifo::kSlots;
}

std::byte* InprocSendLink::room(std::size_t bytes) {
  CCOLL_CHECK(has_room(), "to rank {}, lane {}", id_.to, id_.lane);
  auto& copy = next().copy;
  if (copy.size() < bytes) copy.resize(bytes);
  return copy.data();
}

void InprocSendLink::publish(const SliceHeader& header, const std::byte* data, Loan loan) {
  CCOLL_CHECK(has_room(), "to rank {}, lane {}", id_.to, id_.lane);
  Slot& slot = next();
  slot.header = header;
  slot.data = data;
  slot.loan.store(loan, std::memory_order_relaxed);  // published by head
  fifo_->head.store(++pushed_);
  fifo_->receiver.ring_if_asleep();
}

void InprocSendLink::push(const SliceHeader& header) {
  publish(header, next().copy.data(), Loan::ended);
}

void InprocSendLink::lend(const SliceHeader& header, const std::byte* data, Copier /*copier*/) {
  publish(header, data, Loan::offered);
  lent_until_ = pushed_;
}

bool InprocSendLink::drained() { return fifo_->tail.load() >= lent_until_; }

void InprocSendLink::revoke() {
  for (std::uint64_t i = fifo_->tail.load(); i < lent_until_; i++) {
    auto& loan = fifo_->slots[i % Fifo::kSlots].loan;
    Loan expected = Loan::offered;
    if (loan.compare_exchange_strong(expected, Loan::ended)) continue;
    // A reader in the middle of this slice finishes within one copy.
    while (loan.load(std::memory_order_acquire) == Loan::reading) std::this_thread::yield();
  }
  lent_until_ = 0;
}

const Failure* InprocSendLink::failure() const {
  if (!failure_ && fifo_->receiver_gone.load()) failure_ = gone(id_.to);
  return failure_ ? &*failure_ : nullptr;
}

InprocReceiveLink::InprocReceiveLink(const LinkId& id, std::shared_ptr<Waiter> waiter,
                                     const Resident& receiver)
    : id_(id), fifo_(meet(id, End::receiver, receiver)) {
  fifo_->receiver.hang(std::move(waiter));
}

InprocReceiveLink::~InprocReceiveLink() {
  fifo_->receiver_gone.store(true);
  fifo_->sender.ring();
  part(id_, fifo_);
}

const ReceiveLink::View* InprocReceiveLink::front() {
  if (fifo_->head.load() == popped_) return nullptr;
  view_ = {first().header, first().data, first().data != first().copy.data()};
  return &view_;
}

const SliceHeader* InprocReceiveLink::peek() {
  const auto* view = front();
  return view == nullptr ? nullptr : &view->header;
}

bool InprocReceiveLink::begin_read() {
  Slot& slot = first();
  if (slot.data == slot.copy.data()) return true;
  Loan expected = Loan::offered;
  return slot.loan.compare_exchange_strong(expected, Loan::reading, std::memory_order_acquire);
}

void InprocReceiveLink::end_read() { first().loan.store(Loan::ended, std::memory_order_release); }

bool InprocReceiveLink::pop() {
  end_read();
  fifo_->tail.store(++popped_);
  fifo_->sender.ring_if_asleep();
  return true;
}

const Failure* InprocReceiveLink::failure() const {
  // Slices sent before leaving are still delivered; look again for one that came just before.
  if (!failure_ && (lost_ || fifo_->sender_gone.load()) && fifo_->head.load() == popped_)
    failure_ = lost_ ? *lost_ : gone(id_.from);
  return failure_ ? &*failure_ : nullptr;
}

}  // namespace ccoll::inproc
