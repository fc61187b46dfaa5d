// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Links between processes of one host, over memory that both map. The sender makes the memory and
/// hands it over. If that fails, both ends use the fallback transport, before any slice has
/// travelled. Slices of registered memory are lent in place once the receiver has mapped it. So are
/// larger slices of other memory, if the receiver can read the sender's process.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "system/segment.hpp"
#include "transport/arrival_board.hpp"
#include "transport/doorbell.hpp"
#include "transport/fallback.hpp"
#include "transport/shm/huge_pages.hpp"
#include "transport/shm/lending.hpp"
#include "transport/shm/multicast_slots.hpp"
#include "transport/shm/ring_reader.hpp"
#include "transport/shm/ring_writer.hpp"
#include "transport/shm/single_copy.hpp"
#include "transport/slot_budget.hpp"
#include "transport/transport.hpp"

namespace ccoll::shm {

/// A link on its way to its receiver: the memory, the bell to ring when it is read, and the
/// connection on which the receiver hands over its own bell.
struct Offer {
  std::shared_ptr<Segment> memory;
  std::shared_ptr<Segment> multicast;       ///< the sender's, if it has any
  std::optional<PeerMemory> sender_memory;  ///< of the sender's process, if readable
  std::shared_ptr<Doorbell> sender;
  FileDescriptor connection;
};

/// The failure of a link whose peer has left.
Failure gone(std::uint32_t rank);

/// Tells the sender that nobody will read this link.
void decline(const Offer& offer);

/// Hands the receiver's bell to the sender, over the offer's connection, and closes that. Does
/// nothing while too many descriptors of this user are in flight: then the connection stays open.
void hand_doorbell(Offer& offer, const Doorbell& receiver);

/// State shared by a sending end and the service thread during the hand-over.
struct HandOver {
  std::shared_ptr<Segment> memory;
  std::shared_ptr<MulticastSlots> multicast;             ///< or null
  std::shared_ptr<const FileDescriptor> multicast_file;  ///< its file, until handed over
  std::shared_ptr<Waiter> waiter;                        ///< the sender's
  ProcessMark mark;  ///< of the sender's process; empty if it must not be read
  /// Whether the pages of the slots are made ahead, once the receiver has the memory.
  bool makes_pages = false;
  /// Set once the receiver's process has the memory, or with the reason why it has not.
  Delivery<std::monostate> taken;
  /// Never anything but a failure: the reason why the receiver, which has the memory, cannot be
  /// rung.
  Delivery<std::monostate> unheard;
  /// Rings the receiver; null until its end is open. `receiver` owns it.
  std::atomic<Doorbell*> doorbell{nullptr};
  std::shared_ptr<Doorbell> receiver;
};

/// Memory of a thrifty link while nothing is in flight.
inline constexpr std::size_t kThriftyBytes = Ring::kFirstSlot + kLinkSlots * Ring::kKeptBytes;

/// docs/design/links.md says what more slots bring. They pay for the page faults of their first use
/// only on a link that is used often: a fault takes a virtual machine 2.4 µs, and 28 slots 900
/// faults.
inline constexpr std::uint64_t kSlicesBeforeGrowth = 1024;

/// Number of slices after which those of messages may be longer than kShortSlotBytes. Long ones
/// would touch four times as many pages of fresh slots. It is 20 messages of 1 MiB, and less than
/// kSlicesBeforeGrowth: a link of messages of 2 MiB must not grow in its first calls.
inline constexpr std::uint64_t kShortSlices = 640;
static_assert(kShortSlices < kSlicesBeforeGrowth);

class ShmSendLink final : public SendLink {
 public:
  /// `slots`: a share for kLinkSlots slots, or for kThriftyBytes if the ring is thrifty. `lines`:
  /// the maximum number of slices ahead, up to Ring::kLines. `oversubscribed`: ranks outnumber
  /// cores.
  ShmSendLink(const LinkId& id, std::shared_ptr<HandOver> hand_over, SlotBudget::Share slots,
              std::uint32_t lines, bool oversubscribed, std::shared_ptr<Lender> lender,
              std::shared_ptr<HugePages> huge_pages, std::shared_ptr<Fallback> fallback);
  ~ShmSendLink() override;

  std::size_t good_bytes(std::uint64_t whole, Copier copier) const override;
  bool copies_once() const override { return !fallback_link_ && is_fetched(); }
  bool prefers_loans(LoanClass loans) const override {
    return !fallback_link_ && writer_.prefers_loans(loans);
  }
  bool has_room() override;
  std::byte* room(std::size_t bytes) override;
  void push(const SliceHeader& header) override;
  void lend(const SliceHeader& header, const std::byte* data, Copier copier) override;
  Sent send(const SliceHeader& header, const std::byte* data) override;
  std::byte* shared_room(const std::byte* data, std::size_t bytes) override;
  bool push_shared(const SliceHeader& header, const std::byte* shared) override;
  void announce(const std::byte* data, std::size_t bytes,
                const std::shared_ptr<const DirectMemory>& memory) override;
  bool progress() override;
  bool drained() override { return fallback_link_ ? fallback_link_->drained() : writer_.drained(); }
  void begin_revoke() override;
  void revoke() override;
  void peer_gone(Departure how, const Failure& why) override;
  bool connected() const override;
  const Failure* failure() const override;
  LinkReport report() const override;

 private:
  /// Whether the receiver has the memory, too.
  bool settle();
  /// Takes slots for all lines, if the budget has them to spare.
  void grow();
  /// Whether the receiver lives but cannot be rung for lack of descriptors: it would sleep.
  bool is_deaf() const;
  /// Whether the receiver reads lent slices in this process's memory.
  bool is_fetched() const { return hand_over_->mark.address != 0 && writer_.is_fetched(); }
  /// Wakes the receiver after a push.
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
  bool grows_;  ///< takes more slots when it lacks one
  RingWriter writer_;
  std::optional<std::chrono::steady_clock::time_point> revoked_;  ///< when the revocation began
  bool settled_ = false;
  std::unique_ptr<SendLink> fallback_link_;  ///< link of the fallback
  bool fallback_works_ = false;
  mutable std::optional<Failure> failure_;
};

class ShmReceiveLink final : public ReceiveLink {
 public:
  /// `fallback_link`: the same link by the fallback, or null.
  ShmReceiveLink(const LinkId& id, std::shared_ptr<Delivery<Offer>> delivery,
                 std::shared_ptr<Borrowed> borrowed, std::shared_ptr<SlotBudget> budget,
                 std::unique_ptr<ReceiveLink> fallback_link, std::shared_ptr<Waiter> waiter);
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
    if (fallback_link_) fallback_link_->revoke();
  }
  void peer_gone(Departure how, const Failure& why) override;
  const Failure* failure() const override;
  LinkReport report() const override {
    // Until the sender comes, it may be either.
    return is_elsewhere() ? fallback_link_->report() : LinkReport{"shm", 0};
  }

 private:
  /// Whether the link runs over the sender's memory, which may have just come.
  bool settle();
  /// Takes over the sender's memory; false if it has not come.
  bool take_over();
  /// Whether the sender uses the fallback.
  bool is_elsewhere() const { return fallback_link_ && fallback_link_->connected(); }
  /// Hands this end's bell to the sender, if that is possible by now.
  void pay_doorbell();
  /// Whether there is a ring to read.
  bool is_ready() {
    if (!settled_ && !settle()) return false;
    if (owes_doorbell_) [[unlikely]]
      pay_doorbell();
    return true;
  }
  /// Whether the front slice is there. Its header is read once, into view_.
  bool look() {
    if (looked_) return true;
    if (!reader_->there()) {
      reader_->prefetch();
      return false;
    }
    view_.header = reader_->header();
    return looked_ = true;
  }
  /// Whether the front slice can be read: not while its sender has yet to copy it.
  bool is_readable() const { return reader_->there() && (!is_refused_ || reader_->is_remade()); }
  /// The place of a front slice that does not fit its line. Null after a failure.
  const std::byte* find();
  /// The same for memory outside the ring; a lent mapping is held until pop().
  const std::byte* find_elsewhere(const Ring::Place& place);
  /// Copies the front slice from the sender's process to its offered place, or to fetched_. Null if
  /// the kernel refuses; then the sender copies it.
  const std::byte* fetch(std::uint64_t address);
  /// Fills ahead_.
  Status read_ahead();
  /// Number of contiguous bytes from `address` on, of the front slice and those behind it, that are
  /// there and have offered places.
  std::size_t bytes_at_once(std::uint64_t address) const;
  void refuse(const Failure& why);
  /// Returns the front slice's slot to the system, except what a thrifty ring keeps.
  void give_back();
  /// False, and fails the link, if the front slice cannot be so long.
  bool has_slot_size(std::size_t bytes);

  const LinkId id_;
  const std::shared_ptr<Delivery<Offer>> delivery_;
  const std::shared_ptr<Borrowed> borrowed_;
  const std::shared_ptr<SlotBudget> budget_;
  const std::shared_ptr<Waiter> waiter_;
  bool settled_ = false;
  std::unique_ptr<ReceiveLink> fallback_link_;  ///< until settled; in use if it connects first
  Offer offer_;
  bool owes_doorbell_ = false;
  Ring* ring_ = nullptr;
  std::optional<RingReader> reader_;
  View view_;                            ///< the front slice; data is null until found
  bool looked_ = false;                  ///< view_ has its header
  bool gives_back_ = false;              ///< give back the front slice's slot once read
  std::shared_ptr<const Segment> loan_;  ///< mapping of the lent slice
  bool taken_back_ = false;              ///< the front slice was taken back while it was fetched
  bool is_refused_ = false;              ///< the front slice cannot be read in place
  bool has_logged_refusal_ = false;      ///< the first refusal has been logged
  std::span<std::byte> offered_;         ///< place for the front slice
  std::size_t offered_beyond_ = 0;       ///< bytes behind it for the next slices
  std::span<std::byte> ahead_;           ///< fetched bytes of the next slices
  std::uint64_t ahead_address_ = 0;      ///< their address in the sender's process
  std::uint64_t ahead_sequence_ = 0;     ///< sequence of their call
  std::unique_ptr<std::byte[]> fetched_;
  SlotBudget::Share fetched_share_;  ///< for fetched_; without it nothing is fetched
  std::optional<Failure> gone_;      ///< the failure to report, if the sender has gone
  mutable std::optional<Failure> failure_;
};

}  // namespace ccoll::shm
