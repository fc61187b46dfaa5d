// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Links between ranks that are threads of one process. Lent slices are read where they lie.

#include <optional>

#include "transport/inproc/hub.hpp"

namespace ccoll::inproc {

class InprocSendLink final : public SendLink {
 public:
  InprocSendLink(const LinkId& id, std::shared_ptr<Waiter> waiter, const Resident& receiver);
  ~InprocSendLink() override;

  bool has_room() override;
  std::byte* room(std::size_t bytes) override;
  void push(const SliceHeader& header) override;
  void lend(const SliceHeader& header, const std::byte* data, Copier copier) override;
  bool progress() override { return false; }
  bool drained() override;
  bool connected() const override { return fifo_->receiver.hung(); }
  void revoke() override;
  void peer_gone(Departure how, const Failure& why) override {
    if (how == Departure::lost && !failure_) failure_ = why;
  }
  const Failure* failure() const override;
  LinkReport report() const override { return {"inproc", 0}; }

 private:
  Slot& next() { return fifo_->slots[pushed_ % Fifo::kSlots]; }
  void publish(const SliceHeader& header, const std::byte* data, Loan loan);

  const LinkId id_;
  const std::shared_ptr<Fifo> fifo_;
  std::uint64_t pushed_ = 0;
  std::uint64_t popped_ = 0;      ///< by the receiver, as last read: it may be more
  std::uint64_t lent_until_ = 0;  ///< slices before this count may be lent
  mutable std::optional<Failure> failure_;
};

class InprocReceiveLink final : public ReceiveLink {
 public:
  InprocReceiveLink(const LinkId& id, std::shared_ptr<Waiter> waiter, const Resident& receiver);
  ~InprocReceiveLink() override;

  const SliceHeader* peek() override;
  void offer(std::byte*, std::size_t) override {}
  const View* front() override;
  bool whole() const override { return fifo_->head.load() != popped_; }
  bool connected() const override { return fifo_->sender.hung(); }
  bool begin_read() override;
  void end_read() override;
  bool pop() override;
  void revoke() override {}
  void peer_gone(Departure how, const Failure& why) override {
    if (how == Departure::lost) lost_ = why;
  }
  const Failure* failure() const override;
  LinkReport report() const override { return {"inproc", 0}; }

 private:
  Slot& first() { return fifo_->slots[popped_ % Fifo::kSlots]; }

  const LinkId id_;
  const std::shared_ptr<Fifo> fifo_;
  std::uint64_t popped_ = 0;
  View view_;
  std::optional<Failure> lost_;  ///< the failure to report, if the sender is lost
  mutable std::optional<Failure> failure_;
};

}  // namespace ccoll::inproc
