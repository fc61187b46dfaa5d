// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What joins two ranks on one lane, at one end: a reliable-connected queue pair, its completion
/// queue and channel, and for each direction that is used the slots, which are the receiver's
/// memory to write to and the sender's to write from. All that ever travels is RDMA writes with an
/// immediate: 2 bits of what it is, 15 of a count, and 15 of the slices that its sender has popped
/// so far, which are credits for what goes the other way. Counts are cumulative.
///
///   data     slice `count` has come: its head in slot (count - 1) mod kSlots, its payload behind
///            that or where the receiver wants it
///   credit   nothing but the credits
///   offer    `count` offers were made of places for what goes the other way, the last in place
///            (count - 1) mod kOffers
///   leaves   `count`, a set of End: these ends are gone, nothing comes from them any more
///
/// but for payloads that are placed, which travel as a write of their own before the head. So the
/// completion queue tells everything; memory is never polled. A receive is posted for each that may
/// come before the peer knows the address: a receiver that is not ready never occurs.
///
/// The service thread opens and connects each direction, perhaps while the other is in use; all
/// else is the holder's of the owner flag.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/bytes.hpp"
#include "system/segment.hpp"
#include "transport/link.hpp"
#include "transport/slot_budget.hpp"
#include "transport/verbs/completion_group.hpp"
#include "transport/verbs/device/device.hpp"
#include "transport/verbs/device/registration.hpp"
#include "transport/verbs/errors.hpp"
#include "transport/verbs/watchdog.hpp"
#include "transport/waiter.hpp"

namespace ccoll::verbs {

/// What one end must know of the other, for one direction.
struct QueuePairAddress {
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;
  GidBytes gid{};
  std::uint32_t key = 0;   ///< of the direction's slots
  std::uint64_t base = 0;  ///< their address

  static constexpr std::size_t kBytes = 4 + 4 + 2 + 1 + 16 + 4 + 8;
};
net::Writer& write(net::Writer& writer, const QueuePairAddress& address);
QueuePairAddress read_queue_pair_address(net::Reader& reader);

/// Which end of a direction; a bit each.
enum class End : std::uint32_t { sends = 1, receives = 2 };

/// The rank at the other end, shared by all links to it.
struct Peer {
  std::uint32_t rank = 0;
  std::string host;
  /// It has not taken a last word in time: links that end then wait for it hardly any more.
  std::atomic<bool> is_silent{false};
};

/// Memory of the receiver's that payloads may be written to: those whose bytes are the link's
/// `begin`-th up to, but not including, the (begin + bytes)-th. As it lies in the sender's memory.
struct Offer {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t is_of_one = 0;   ///< all of it for one slice, or it is not used
  std::uint32_t is_for_all = 0;  ///< also slices that are hardly worth it: no CPU could copy them
  std::uint32_t checksum = 0;    ///< always: a bit that flips would move bytes to another place
};

/// What precedes a payload in its slot.
struct SlotHead {
  std::uint32_t offers_seen = 0;  ///< by the sender, of those that were made
  std::uint32_t is_placed = 0;    ///< the payload lies where the receiver wanted it
  SliceHeader slice;
};
static_assert(sizeof(Offer) == 40 && sizeof(SlotHead) == 40);

class QueuePair {
 public:
  /// Slices in flight. Of kCreditBatch that were popped a receiver tells as soon as it has nothing
  /// else to do, of more at once, so that the sender always has the use of kLinkSlots.
  static constexpr std::uint32_t kSlots = 8;
  static constexpr std::uint32_t kCreditBatch = kSlots / 2;
  static_assert(kSlots - kCreditBatch >= kLinkSlots);
  static constexpr std::size_t kSlotBytes = kCommonSliceBytes;
  /// The header ends where the payload begins, on a cache line's border.
  static constexpr std::size_t kPayloadAt = 64;
  static constexpr std::size_t kStride = kPayloadAt + kSlotBytes;
  /// Made and not yet seen by the sender.
  static constexpr std::uint32_t kOffers = 4;
  static constexpr std::size_t kOffersAt = kSlots * kStride;
  static constexpr std::size_t kMemoryBytes = kOffersAt + kOffers * sizeof(Offer);
  /// Less is copied sooner than it is looked up where it belongs.
  static constexpr std::size_t kWorthPlacing = 8 << 10;
  /// So much ordinary memory is registered for one call; less is copied. Measured on soft-RoCE:
  /// registering 256 KiB and ending that takes 38 µs, copying them 136; of 64 KiB 30 and 34.
  static constexpr std::size_t kWorthRegistering = 256 << 10;

  static Result<std::shared_ptr<QueuePair>> make(const Devices& devices, const PortChoice& choice,
                                                 std::shared_ptr<Peer> peer);
  /// As when the last link leaves it, if none has ever come.
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // The service thread's.

  /// Whether `end` may be opened on it: nobody has, and it is not over. `number`: the peer's, where
  /// that is known.
  bool is_free(End end, std::optional<std::uint32_t> number);
  /// What the peer must know to use the other end. `share`: of kMemoryBytes.
  Result<QueuePairAddress> open(End end, SlotBudget::Share share);
  /// Of an end that is open. May be sent to before this returns on both sides: receives are posted
  /// since make().
  Status connect(End end, const QueuePairAddress& peer);
  /// The peer uses it too: it is to be told of what ends here.
  void confirm() { is_confirmed_ = true; }
  /// No link will take that end; from any thread.
  void forsake(End end) { forsaken_.fetch_or(static_cast<std::uint32_t>(end)); }

  // The links'.

  /// From now on a sleep of that rank ends when something comes to any of the company. Each link
  /// that has called this calls leave() once.
  Status attach(std::shared_ptr<Waiter> waiter, std::shared_ptr<CompletionGroup> completion_group);
  /// Tells the peer that nothing comes from there any more; the last one sees off what was sent,
  /// for a bounded time.
  void leave(End end);

  /// Looks what has come; false if nothing. Where a sleep is announced, arms the queues of the
  /// whole company and looks once more, so that whatever comes later ends the sleep.
  bool poll();
  /// The company's: looks, and arms the queue where nothing has come.
  void look_before_sleep();

  // The sender's.
  bool has_room() const {
    return has_slot() && posted_ - completed_ < kMostPosted && takes_slices();
  }
  bool takes_slices() const { return !failure_ && !peer_left(End::receives); }
  /// Of what has_room() says the part that stays true until the next slice, whatever another link
  /// of this queue pair, or of the company, finds meanwhile.
  bool has_slot() const { return pushed_ - credited_ < kSlots; }
  std::byte* room() { return slot(out_, pushed_) + kPayloadAt; }
  void push(const SliceHeader& header);
  /// False if that memory is not known to the device: the slice is yet to be pushed.
  bool lend(const SliceHeader& header, const std::byte* data);
  void announce(const std::byte* data, std::size_t bytes);
  void announce(const std::byte* data, std::size_t bytes,
                std::shared_ptr<const Registration> memory);
  /// The device reads no lent memory any more.
  bool drained() {
    if (completed_ < lent_until_) return false;
    if (!announced_.empty()) drop_announced();
    return true;
  }

  // The receiver's.
  bool there() const { return arrived_ != popped_; }
  /// The front slice; none where its head does not say what has come.
  std::optional<ReceiveLink::View> front();
  void pop(std::size_t bytes);
  /// Bytes [begin, begin + bytes) of all payloads may be written to `data`; of one slice, or of as
  /// many as they are. `memory`: theirs, or null: to be found, or made known for this.
  void offer(std::uint64_t begin, std::byte* data, std::size_t bytes, bool is_of_one,
             std::shared_ptr<const Registration> memory = nullptr);
  /// Bytes of the slices that have been popped.
  std::uint64_t popped_bytes() const { return popped_bytes_; }

  /// Either end's.
  Result<std::shared_ptr<const DirectMemory>> make_direct(const ExportedMemory& memory) const;
  /// What make_direct() has made.
  std::shared_ptr<const Registration> registration_of(
      std::shared_ptr<const DirectMemory> memory) const;

  /// Once this returns the device neither reads nor writes memory that was lent or offered. If
  /// there is any, the queue pair is of no use from then on.
  void revoke();

  bool peer_left(End end) const { return (left_ & static_cast<std::uint32_t>(end)) != 0; }
  /// This one's, or that of another to the same rank.
  const Failure* failure() const {
    if (failure_) return &*failure_;
    return completion_group_ ? completion_group_->failure_of(peer_->rank) : nullptr;
  }
  void fail_with(Failure failure);

 private:
  /// Receives are posted anew by so many, as soon as so many have been used.
  static constexpr std::uint32_t kReceiveBatch = 4;
  static constexpr std::uint32_t kCountBits = 15;
  static constexpr std::uint32_t kCountMask = (1U << kCountBits) - 1;
  static constexpr std::uint32_t kBothEnds = 3;
  /// Last words: of one end, of what nobody takes, and of both.
  static constexpr std::uint32_t kLeaves = 3;
  /// Slices of one direction; credits and offers for the other.
  static constexpr std::uint32_t kReceives =
      (kSlots + kSlots / kCreditBatch + kOffers + kLeaves) / kReceiveBatch * kReceiveBatch +
      2 * kReceiveBatch;
  static constexpr std::uint32_t kMostPosted = 4 * kSlots;
  /// Its payload, where the receiver wants it, and the rest.
  static constexpr std::uint32_t kWritesOfSlice = 2;
  /// Beside slices: credits, offers and last words.
  static constexpr std::uint32_t kSends =
      kMostPosted + kWritesOfSlice + kSlots / kCreditBatch + kOffers + kLeaves;
  /// Of every so many slices one is signalled: it completes those before it.
  static constexpr std::uint32_t kSignalEvery = kSlots;

  enum class Word : std::uint32_t { data, credit, leaves, offer };
  /// One direction's memory; the service thread's until the link has it.
  struct Slots {
    SlotBudget::Share share;
    std::shared_ptr<Segment> memory;
    ibv_mr* registration = nullptr;
    std::uint32_t peer_key = 0;
    std::uint64_t peer_base = 0;
  };
  /// What the receiver wants, and what keeps its memory known to the device meanwhile.
  struct Wanted {
    Offer offer;
    std::shared_ptr<const Registration> memory;
  };
  /// Memory that will be lent.
  struct Announced {
    std::shared_ptr<const Registration> memory;
    const std::byte* data;
    std::size_t bytes;
    std::size_t left;  ///< to be lent
  };

  QueuePair(const Devices& devices, std::shared_ptr<Peer> peer)
      : devices_(devices), peer_(std::move(peer)) {}
  Status create(const PortChoice& choice);
  Status create_queue_pair();
  Status connect_to(const QueuePairAddress& peer);
  Status modify(ibv_qp_attr& attributes, int mask, const char* what);
  /// kReceiveBatch of them.
  Status post_receives();
  /// What the queue has no room for is told later.
  void tell_popped();
  /// Whether a credit or an offer goes into the queue, beside a slice that was promised room. The
  /// peer's device may be late to confirm what has come, and so give rise to more.
  bool may_say() const { return posted_ - completed_ < kSends - kLeaves - kWritesOfSlice; }
  void say(Word word, std::uint64_t count) { post(request_of(word, count, true)); }
  ibv_send_wr request_of(Word word, std::uint64_t count, bool is_signalled);
  void post(ibv_send_wr&& first) { post(first); }
  void post(ibv_send_wr& first);
  /// Where the peer has what this end has there.
  static void to_same_place(ibv_send_wr& request, const Slots& slots, std::uint64_t address);
  // slices.cpp
  void send(const SliceHeader& header, const std::byte* payload, const Registration* lent);
  /// The memory of the next slice that was announced, if this is it.
  std::shared_ptr<const Registration> take_announced(const std::byte* data, std::size_t bytes);
  const Offer* offer_for(std::size_t bytes);
  bool take_offer(std::uint32_t count);
  bool take_credits(std::uint32_t count);
  void drop_announced();
  void take(const ibv_wc& completion);
  void take_word(std::uint32_t immediate, std::uint32_t bytes);
  int take_some();
  void look_for_events();
  void arm();
  /// Fails where the device neither confirms nor gives up what was posted.
  void watch();
  /// What writes nothing, but is told of when it and all before it have been confirmed.
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

  const Devices& devices_;
  const std::shared_ptr<Peer> peer_;
  const pid_t process_ = getpid();
  Path path_;
  std::size_t port_index_ = 0;
  Alarm alarm_;
  std::uint8_t port_ = 1;
  bool is_global_ = true;
  int gid_index_ = 0;
  ibv_pd* domain_ = nullptr;
  Registrations* registrations_ = nullptr;
  Slots out_;
  Slots in_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_qp* pair_ = nullptr;
  std::uint32_t most_inline_ = 0;
  QueuePairAddress address_;  ///< but for slots; as it was made
  std::mutex mutex_;
  std::optional<std::uint32_t> peer_number_;  // guarded by mutex_; once that is tried:
  Status connected_;                          // guarded by mutex_
  bool is_over_ = false;                      // guarded by mutex_
  std::atomic<bool> is_confirmed_{false};
  std::atomic<std::uint32_t> forsaken_{0};  ///< ends of which the peer is to be told so
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<CompletionGroup> completion_group_;
  unsigned links_ = 0;
  bool is_armed_ = false;
  Watchdog watchdog_;
  std::uint32_t receives_owed_ = 0;  ///< to be posted anew

  std::uint64_t posted_ = 0;     ///< sends of any word
  std::uint64_t completed_ = 0;  ///< of those
  std::uint64_t pushed_ = 0;     ///< slices, of which the peer has popped credited_
  std::uint64_t credited_ = 0;
  std::uint64_t arrived_ = 0;  ///< slices, of which popped_ have been popped and told_ told
  std::uint64_t popped_ = 0;
  std::uint64_t told_ = 0;
  std::array<std::uint32_t, kSlots> arrived_bytes_{};
  std::uint64_t pushed_bytes_ = 0;  ///< of payloads
  std::uint64_t popped_bytes_ = 0;
  std::uint64_t lent_until_ = 0;  ///< what is posted before this count may lie in lent memory
  std::vector<Announced> announced_;
  std::deque<Offer> offers_;        ///< the peer's, that slices may still come to
  std::uint32_t offers_seen_ = 0;   ///< of the peer's
  std::deque<Wanted> wanted_;       ///< this end's, that slices may still come to
  std::uint32_t offers_made_ = 0;   ///< this end's, of which the peer has seen some
  std::uint32_t offers_known_ = 0;  ///< to have been seen by it
  std::uint32_t left_ = 0;          ///< ends of the peer's that are gone
  std::optional<Failure> failure_;
  bool is_cause_known_ = false;  ///< failure_ is not of something that was merely flushed
};

}  // namespace ccoll::verbs
