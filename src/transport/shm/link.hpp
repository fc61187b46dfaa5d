// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Links between processes of one host, over memory that both map. The sender makes the memory and
/// hands it over; where that does not work, the link is one of the fallback transport at both ends,
/// before any slice has travelled. Slices of registered memory are lent where they lie, once the
/// receiver has mapped it, and so are larger ones of other memory where the receiver can read that.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "system/segment.hpp"
#include "transport/delivery.hpp"
#include "transport/doorbell.hpp"
#include "transport/fallback.hpp"
#include "transport/shm/huge_pages.hpp"
#include "transport/shm/lending.hpp"
#include "transport/shm/multicast_slots.hpp"
#include "transport/shm/ring.hpp"
#include "transport/shm/single_copy.hpp"
#include "transport/slot_budget.hpp"
#include "transport/transport.hpp"

namespace ccoll::shm {

/// A link on its way to its receiver: the memory, who is to be rung when it is read, and the
/// connection on which the receiver hands over its own bell.
struct Offer {
  std::shared_ptr<Segment> memory;
  std::shared_ptr<Segment> multicast;       ///< the sender's shared slots, if it has any
  std::optional<PeerMemory> sender_memory;  ///< where it can be read from
  std::shared_ptr<Doorbell> sender;
  FileDescriptor connection;
};

/// Nobody will read that link: its sender learns it.
void decline(const Offer& offer);

/// What a sending end and the service thread share while the link is being handed over.
struct HandOver {
  std::shared_ptr<Segment> memory;
  std::shared_ptr<MulticastSlots> multicast;          ///< or null
  std::shared_ptr<const FileDescriptor> spread_file;  ///< of it, until it has been handed over
  std::shared_ptr<Waiter> waiter;                     ///< the sender's
  ProcessMark mark;  ///< of the sender's process, if it is to be read from
  /// The receiver's process has the memory; or why it has not.
  Delivery<std::monostate> taken;
  /// Only ever a failure: why the receiver, whose process has it, cannot be rung.
  Delivery<std::monostate> unheard;
  /// Rings the receiver; null until that has opened its end. `receiver` keeps it.
  std::atomic<Doorbell*> doorbell{nullptr};
  std::shared_ptr<Doorbell> receiver;
};

/// A thrifty link holds so much while nothing is on its way.
inline constexpr std::size_t kThriftyBytes = Ring::kFirstSlot + kLinkSlots * Ring::kKeptBytes;

class ShmSendLink final : public SendLink {
 public:
  /// `slots`: for kLinkSlots of them, or, if the ring is thrifty, for kThriftyBytes. `lines`: at
  /// most Ring::kLines, by how many slices it may be ahead. `oversubscribed`: whether ranks
  /// outnumber cores.
  ShmSendLink(const LinkId& id, std::shared_ptr<HandOver> hand_over, SlotBudget::Share slots,
              std::uint32_t lines, bool oversubscribed, std::shared_ptr<Lender> lender,
              std::shared_ptr<HugePages> huge_pages, std::shared_ptr<Fallback> fallback);
  ~ShmSendLink() override;

  std::size_t most_bytes() const override { return kSlotBytes; }
  std::size_t good_bytes(std::uint64_t whole, Copier copier) const override;
  bool copies_once() const override { return !instead_ && is_fetched(); }
  bool prefers_loans(LoanClass loans) const override {
    return !instead_ && writer_.prefers_loans(loans);
  }
  bool lends_mapped(const std::byte* data, std::size_t bytes) override;
  bool has_room() override;
  std::byte* room(std::size_t bytes) override;
  void push(const SliceHeader& header) override;
  void lend(const SliceHeader& header, const std::byte* data, Copier copier) override;
  Sent send(const SliceHeader& header, const std::byte* data) override;
  std::byte* shared_room(const std::byte* data, std::size_t bytes) override;
  bool push_shared(const SliceHeader& header, const std::byte* shared) override;
  void announce(const std::byte* data, std::size_t bytes) override;
  bool progress() override;
  bool drained() override { return instead_ ? instead_->drained() : writer_.drained(); }
  void begin_revoke() override;
  void revoke() override;
  void peer_gone(Departure how, const Failure& why) override;
  bool connected() const override;
  const Failure* failure() const override;
  LinkReport report() const override;

 private:
  /// Whether the memory is the receiver's too.
  bool settle();
  /// Takes slots for all of its lines, if the budget has them to spare.
  void grow();
  /// Whether the receiver lives and cannot be rung, for want of descriptors: it would sleep.
  bool is_deaf() const;
  /// Whether the receiver fetches what is lent from where it lies in this process.
  bool is_fetched() const { return hand_over_->mark.address != 0 && writer_.is_fetched(); }
  /// What was pushed is the receiver's to read.
  void tell();

  const LinkId id_;
  const std::shared_ptr<HandOver> hand_over_;
  const std::shared_ptr<Lender> lender_;
  const std::shared_ptr<HugePages> huge_pages_;
  const std::shared_ptr<Fallback> fallback_;
  Ring* const ring_;
  SlotBudget::Share slots_;
  const std::uint32_t lines_;
  const bool oversubscribed_;
  bool grows_;  ///< when it lacks a slot
  RingWriter writer_;
  std::optional<std::chrono::steady_clock::time_point> revoked_;  ///< when that began
  bool settled_ = false;
  std::unique_ptr<SendLink> instead_;  ///< of the fallback
  bool instead_works_ = false;
  mutable std::optional<Failure> failure_;
};

class ShmReceiveLink final : public ReceiveLink {
 public:
  /// `instead`: the same link by the fallback, or null.
  ShmReceiveLink(const LinkId& id, std::shared_ptr<Delivery<Offer>> delivery,
                 std::shared_ptr<Borrowed> borrowed, std::shared_ptr<SlotBudget> budget,
                 std::unique_ptr<ReceiveLink> instead, std::shared_ptr<Waiter> waiter);
  ~ShmReceiveLink() override;

  const SliceHeader* peek() override;
  void offer(std::byte* data, std::size_t bytes) override;
  void offer_beyond(std::size_t bytes) override { offered_beyond_ = bytes; }
  void prefer_loans(LoanClass loans, bool prefers) override {
    if (reader_) reader_->prefer_loans(loans, prefers);
  }
  const View* front() override;
  bool whole() const override;
  bool connected() const override;
  bool begin_read() override;
  bool pop() override;
  void revoke() override {
    if (instead_) instead_->revoke();
  }
  void peer_gone(Departure how, const Failure& why) override;
  const Failure* failure() const override;
  LinkReport report() const override {
    // Until the sender has come it may be either.
    return is_elsewhere() ? instead_->report() : LinkReport{"shm", 0};
  }

 private:
  /// Whether the link is one over the sender's memory, which may have just come.
  bool settle();
  /// Whether that has come.
  bool take_over();
  /// Whether the sender has gone the other way.
  bool is_elsewhere() const { return instead_ && instead_->connected(); }
  /// To the sender, so that it can ring; as soon as that is possible.
  void hand_doorbell();
  /// Whether there is memory to look into.
  bool is_ready() {
    if (!settled_ && !settle()) return false;
    if (owes_doorbell_) hand_doorbell();
    return true;
  }
  /// Whether the front slice is there: then its header is in view_, read once and for all.
  bool look() {
    if (looked_) return true;
    if (!reader_->there()) {
      reader_->prefetch();
      return false;
    }
    view_.header = reader_->header();
    return looked_ = true;
  }
  /// Whether it can be read: not while its sender is yet to copy it.
  bool is_readable() const { return reader_->there() && (!is_refused_ || reader_->is_remade()); }
  /// Where the front slice lies that does not fit its line. Null after a failure.
  const std::byte* find();
  /// The same of one in other memory than the ring's; what is lent is mapped here until it is
  /// popped.
  const std::byte* find_elsewhere(const Ring::Place& place);
  /// Copied from the sender's process to where it was offered a place, or to fetched_. Null where
  /// the kernel refuses that: then the sender copies it.
  const std::byte* fetch(std::uint64_t address);
  /// What ahead_ is to be.
  Status read_ahead();
  /// How many bytes from `address` on are of the front slice and of those behind it that are there
  /// and lie where the places that were offered for them do.
  std::size_t bytes_at_once(std::uint64_t address) const;
  void refuse(const Failure& why);
  /// Gives the system the memory of the front slice's slot, all but what a thrifty ring keeps.
  void give_back();
  /// Of the front slice: false, and the link has failed, if it cannot be so long.
  bool has_slot_size(std::size_t bytes);

  const LinkId id_;
  const std::shared_ptr<Delivery<Offer>> delivery_;
  const std::shared_ptr<Borrowed> borrowed_;
  const std::shared_ptr<SlotBudget> budget_;
  const std::shared_ptr<Waiter> waiter_;
  bool settled_ = false;
  std::unique_ptr<ReceiveLink> instead_;  ///< until settled; in use when it connects first
  Offer offer_;
  bool owes_doorbell_ = false;
  Ring* ring_ = nullptr;
  std::optional<RingReader> reader_;
  View view_;                ///< the front slice; its data are null until it has been found
  bool looked_ = false;      ///< whether view_ has its header
  bool is_lent_ = false;     ///< the front slice, once it has been found
  bool gives_back_ = false;  ///< its slot's memory, once it has been read
  std::shared_ptr<const Segment> loan_;  ///< of it
  bool taken_back_ = false;              ///< the front slice, when it was fetched
  bool is_refused_ = false;              ///< the front slice, where it lay first
  bool has_told_ = false;                ///< why the first was refused
  std::span<std::byte> offered_;         ///< for the front slice
  std::size_t offered_beyond_ = 0;       ///< behind it, for the next ones
  std::span<std::byte> ahead_;           ///< what has been fetched of the next ones
  std::uint64_t ahead_address_ = 0;      ///< where that lies in the sender's process
  std::uint64_t ahead_sequence_ = 0;     ///< of its call
  std::unique_ptr<std::byte[]> fetched_;
  SlotBudget::Share fetched_share_;  ///< for that; none: nothing is fetched
  std::optional<Failure> gone_;      ///< the sender, and why
  mutable std::optional<Failure> failure_;
};

}  // namespace ccoll::shm
