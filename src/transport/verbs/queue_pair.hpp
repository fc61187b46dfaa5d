// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The connection of two ranks on one lane, at one end: a reliable-connected queue pair, its
/// completion queue and channel, and slots for each direction in use. The receiver's slots are
/// written to, the sender's are written from. All traffic is RDMA writes with an immediate: 2 bits
/// for the word, 15 for its count, 15 for the slices that its sender has popped. These are credits
/// for the other direction. Counts are cumulative.
///
///   data     slice `count` arrived: its head in slot (count - 1) mod kSlots, its payload behind
///            that or where the receiver wants it
///   credit   only the credits
///   offer    `count` places were offered to the other direction, the last in place
///            (count - 1) mod kOffers
///   leaves   `count`, a set of End: these ends are gone and send nothing more
///
/// A payload that goes where the receiver wants it travels as a write of its own before the head.
/// The completion queue reports everything; memory is never polled. Receives for all that may come
/// are posted before the peer knows the address, so "receiver not ready" never occurs.
///
/// The service thread opens and connects each direction, perhaps while the other is in use; the
/// rest belongs to the holder of the owner flag.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "system/segment.hpp"
#include "transport/link.hpp"
#include "transport/slot_budget.hpp"
#include "transport/verbs/completion_group.hpp"
#include "transport/verbs/device_pair.hpp"
#include "transport/verbs/offers.hpp"
#include "transport/verbs/slot_counts.hpp"
#include "transport/verbs/watchdog.hpp"
#include "transport/waiter.hpp"

namespace ccoll::verbs {

/// An end of a direction; a bit each.
enum class End : std::uint32_t { sends = 1, receives = 2 };

/// The rank at the other end, shared by all links to it.
struct Peer {
  std::uint32_t rank = 0;
  std::string host;
  /// It missed the deadline of a last word, so links that end later wait for it only briefly.
  std::atomic<bool> is_silent{false};
};

/// Precedes a payload in its slot.
struct SlotHead {
  std::uint32_t offers_seen = 0;  ///< offers that the sender has seen
  std::uint32_t is_placed = 0;    ///< the payload lies where the receiver wanted it
  SliceHeader slice;
};
static_assert(sizeof(SlotHead) == 40);

class QueuePair {
 public:
  static constexpr std::size_t kSlotBytes = kCommonSliceBytes;
  /// The header ends where the payload begins, on a cache line's border.
  static constexpr std::size_t kPayloadAt = 64;
  static constexpr std::size_t kStride = kPayloadAt + kSlotBytes;
  static constexpr std::size_t kOffersAt = kSlots * kStride;
  static constexpr std::size_t kMemoryBytes = kOffersAt + kOffers * sizeof(Offer);
  /// Smaller payloads are copied: that is faster than looking up their registration.
  static constexpr std::size_t kWorthPlacing = 8 << 10;
  /// Ordinary memory of this size is registered for one call, less is copied. On soft-RoCE, 256 KiB
  /// take 38 µs to register and end, 136 to copy; 64 KiB 30 and 34.
  static constexpr std::size_t kWorthRegistering = 256 << 10;

  static Result<std::shared_ptr<QueuePair>> make(const Devices& devices, const PortChoice& choice,
                                                 std::shared_ptr<Peer> peer);
  /// As leave() of the last link, where no link has attached.
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // For the service thread.

  /// Whether `end` may be opened: it is not open and the queue pair is not over. `number`: the
  /// peer's queue pair, if known.
  bool is_free(End end, std::optional<std::uint32_t> number);
  /// Returns the address that the peer needs. `share`: kMemoryBytes of the budget.
  Result<QueuePairAddress> open(End end, SlotBudget::Share share);
  /// Connects an end that is open. The peer may send before this returns on both sides: receives
  /// are posted since make().
  Status connect(End end, const QueuePairAddress& peer);
  /// The peer uses the queue pair too, so it must hear when this end goes.
  void confirm() { is_confirmed_ = true; }
  /// No link will take that end. Thread-safe.
  void forsake(End end) { forsaken_.fetch_or(static_cast<std::uint32_t>(end)); }

  // For the links.

  /// From here on an arrival at any pair of the group ends a sleep of that rank. Each link that has
  /// called this calls leave() once.
  Status attach(std::shared_ptr<Waiter> waiter, std::shared_ptr<CompletionGroup> completion_group);
  /// Announces to the peer that nothing more comes from `end`. The last link also waits, for a
  /// bounded time, until the peer's device has confirmed what was sent.
  void leave(End end);

  /// Processes arrivals; false if there were none. If a sleep is announced, it arms the queues of
  /// the whole group and looks once more, so that a later arrival ends the sleep.
  bool poll();
  /// For the group: processes arrivals, and arms the queue if there were none.
  void look_before_sleep();

  // For the sender.
  bool has_room() const { return has_slot() && outstanding() < kMostPosted && takes_slices(); }
  bool takes_slices() const { return !failure_ && !peer_left(End::receives); }
  /// The part of has_room() that stays true until the next slice, whatever another link of this
  /// queue pair or group finds meanwhile.
  bool has_slot() const { return sent_.has_room(); }
  std::byte* room() { return slot(out_, sent_.pushed()) + kPayloadAt; }
  void push(const SliceHeader& header);
  /// False if the device does not know that memory; then push() the slice instead.
  bool lend(const SliceHeader& header, const std::byte* data);
  /// `memory`: its registration; null: look it up, or register it until it is lent.
  void announce(const std::byte* data, std::size_t bytes,
                std::shared_ptr<const Registration> memory);
  /// Whether the device has finished reading lent memory.
  bool drained() {
    if (completed_ < lent_until_) return false;
    if (!announced_.empty()) drop_announced();
    return true;
  }

  // For the receiver.
  bool there() const { return received_.is_any_there(); }
  /// The front slice; none if its head contradicts the arrival.
  std::optional<ReceiveLink::View> front();
  void pop(std::size_t bytes);
  /// Payload bytes [begin, begin + bytes) may be written to `data`: one slice if `is_of_one`, else
  /// any number. `memory`: its registration; null: look it up, or register it for this offer.
  void offer(std::uint64_t begin, std::byte* data, std::size_t bytes, bool is_of_one,
             std::shared_ptr<const Registration> memory = nullptr);
  /// Payload bytes of the popped slices.
  std::uint64_t popped_bytes() const { return received_.popped_bytes(); }

  /// For either end.
  Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& memory) const;
  /// Returns the registration that make_direct() made; null if `memory` is.
  std::shared_ptr<const Registration> registration_of(
      std::shared_ptr<const DirectMemory> memory) const;

  /// Once this returns, the device neither reads nor writes lent or offered memory. If there is
  /// any, the queue pair is unusable afterwards.
  void revoke();

  bool peer_left(End end) const { return (left_ & static_cast<std::uint32_t>(end)) != 0; }
  /// This pair's failure, or that of another pair to the same rank.
  const Failure* failure() const {
    if (failure_) return &*failure_;
    return completion_group_ ? completion_group_->failure_of(peer_->rank) : nullptr;
  }
  void fail_with(Failure failure);

 private:
  /// Receives are posted again as soon as that many have been consumed.
  static constexpr std::uint32_t kReceiveBatch = DevicePair::kReceiveBatch;
  static constexpr std::uint32_t kBothEnds = 3;
  /// Last words: of one end, of an end that nobody takes, and of both.
  static constexpr std::uint32_t kLeaves = 3;
  /// Slices of one direction, plus credits and offers for the other.
  static constexpr std::uint32_t kReceives =
      (kSlots + kSlots / kCreditBatch + kOffers + kLeaves) / kReceiveBatch * kReceiveBatch +
      2 * kReceiveBatch;
  static constexpr std::uint32_t kMostPosted = 4 * kSlots;
  /// The payload in the receiver's memory, and the head.
  static constexpr std::uint32_t kWritesOfSlice = 2;
  /// Slices plus credits, offers and last words.
  static constexpr std::uint32_t kSends =
      kMostPosted + kWritesOfSlice + kSlots / kCreditBatch + kOffers + kLeaves;
  /// One slice in kSignalEvery is signalled; its completion covers those before it.
  static constexpr std::uint32_t kSignalEvery = kSlots;

  enum class Word : std::uint32_t { data, credit, leaves, offer };
  /// One direction's memory; owned by the service thread until the link has it.
  struct Slots {
    SlotBudget::Share share;
    std::shared_ptr<Segment> memory;
    ibv_mr* registration = nullptr;
    std::uint32_t peer_key = 0;
    std::uint64_t peer_base = 0;
  };
  /// Memory that will be lent.
  struct Announced {
    std::shared_ptr<const Registration> memory;
    const std::byte* data;
    std::size_t bytes;
    std::size_t left;  ///< not lent yet
  };

  QueuePair(const Devices& devices, std::shared_ptr<Peer> peer)
      : peer_(std::move(peer)), device_(devices) {}
  /// Returns credits, or leaves them for later if the queue has no room.
  void tell_popped();
  /// Sends whose completion has not come.
  std::uint64_t outstanding() const { return posted_ - completed_; }
  /// Whether a credit or an offer fits into the queue, beside a slice that was promised room. If
  /// the peer's device confirms late, more words than kSends provides for may be due.
  bool may_say() const { return outstanding() < kSends - kLeaves - kWritesOfSlice; }
  void say(Word word, std::uint64_t count) { post(request_of(word, count, true)); }
  ibv_send_wr request_of(Word word, std::uint64_t count, bool is_signalled);
  void post(ibv_send_wr&& first) { post(first); }
  void post(ibv_send_wr& first);
  /// Sets the request's target to the peer's copy of `address`.
  static void to_same_place(ibv_send_wr& request, const Slots& slots, std::uint64_t address);
  // slices.cpp
  void send(const SliceHeader& header, const std::byte* payload, const Registration* lent);
  /// The memory of the next announced slice, if this is that slice.
  std::shared_ptr<const Registration> take_announced(const std::byte* data, std::size_t bytes);
  bool take_offer(std::uint32_t count);
  void drop_announced();
  void take(const ibv_wc& completion);
  void take_word(std::uint32_t immediate, std::uint32_t bytes);
  int take_some();
  void look_for_events();
  void arm();
  /// Fails if the device neither confirms nor gives up what was posted.
  void watch();
  /// Posts an empty write that is signalled once it and all before it are confirmed.
  void post_nothing();
  void end();
  void see_off();
  Slots& slots_of(End end) { return end == End::sends ? out_ : in_; }
  static std::byte* slot(const Slots& slots, std::uint64_t count) {
    return slots.memory->data() + count % kSlots * kStride;
  }
  static std::byte* offer_place(const Slots& slots, std::uint32_t count) {
    return slots.memory->data() + kOffersAt + count % kOffers * sizeof(Offer);
  }

  const std::shared_ptr<Peer> peer_;
  DevicePair device_;
  Slots out_;
  Slots in_;
  std::mutex mutex_;
  std::optional<std::uint32_t> peer_number_;  // guarded by mutex_; once set, connected_ holds:
  Status connected_;                          // guarded by mutex_
  bool is_over_ = false;                      // guarded by mutex_
  std::atomic<bool> is_confirmed_{false};
  std::atomic<std::uint32_t> forsaken_{0};  ///< ends whose loss the peer must hear of
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<CompletionGroup> completion_group_;
  unsigned links_ = 0;
  bool is_armed_ = false;
  Watchdog watchdog_;
  std::uint32_t receives_owed_ = 0;  ///< to be posted again

  std::uint64_t posted_ = 0;     ///< sends of any word
  std::uint64_t completed_ = 0;  ///< of those posted
  SentSlots sent_;
  ReceivedSlots received_;
  std::uint64_t lent_until_ = 0;  ///< what is posted before this count may lie in lent memory
  std::vector<Announced> announced_;
  TakenOffers taken_;
  MadeOffers made_;
  std::uint32_t left_ = 0;  ///< ends of the peer that are gone
  std::optional<Failure> failure_;
  bool is_cause_known_ = false;  ///< failure_ is more than a flushed request
};

}  // namespace ccoll::verbs
