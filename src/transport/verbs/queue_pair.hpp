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
/// The service thread opens and connects each direction (PairEnds), perhaps while the other is in
/// use; the rest belongs to the links' user.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "transport/link.hpp"
#include "transport/verbs/completion_group.hpp"
#include "transport/verbs/device_pair.hpp"
#include "transport/verbs/lent_memory.hpp"
#include "transport/verbs/offers.hpp"
#include "transport/verbs/pair_ends.hpp"
#include "transport/verbs/send_queue.hpp"
#include "transport/verbs/slot_counts.hpp"
#include "transport/waiter.hpp"

namespace ccoll::verbs {

/// The rank at the other end, shared by all links to it.
struct Peer {
  std::uint32_t rank = 0;
  std::string host;
  /// It missed the deadline of a last word, so links that end later wait for it only briefly.
  std::atomic<bool> is_silent{false};
};

class QueuePair {
 public:
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

  /// For the service thread, which opens and connects them.
  PairEnds& ends() { return ends_; }

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
  bool has_room() const { return has_slot() && sends_.has_room_for_slice() && takes_slices(); }
  bool takes_slices() const { return !failure_ && !peer_left(End::receives); }
  /// The part of has_room() that stays true until the next slice, whatever another link of this
  /// queue pair or group finds meanwhile.
  bool has_slot() const { return sent_.has_room(); }
  std::byte* room() { return ends_.out().payload(sent_.pushed()); }
  void push(const SliceHeader& header);
  /// False if the device does not know that memory; then push() the slice instead.
  bool lend(const SliceHeader& header, const std::byte* data);
  /// `memory`: its registration; null: look it up, or register it until it is lent.
  void announce(const std::byte* data, std::size_t bytes,
                std::shared_ptr<const Registration> memory);
  /// Whether the device has finished reading lent memory.
  bool drained() { return lent_.is_drained(sends_.completed()); }

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
  /// Slices of one direction, plus credits and offers for the other.
  static constexpr std::uint32_t kReceives =
      (kSlots + kSlots / kCreditBatch + kOffers + SendQueue::kLeaves) / kReceiveBatch *
          kReceiveBatch +
      2 * kReceiveBatch;
  /// One slice in kSignalEvery is signalled; its completion covers those before it.
  static constexpr std::uint32_t kSignalEvery = kSlots;

  enum class Word : std::uint32_t { data, credit, leaves, offer };

  QueuePair(const Devices& devices, std::shared_ptr<Peer> peer)
      : peer_(std::move(peer)), device_(devices), ends_(device_), sends_(device_) {}
  /// Returns credits, or leaves them for later if the queue has no room.
  void tell_popped();
  void say(Word word, std::uint64_t count);
  ibv_send_wr request_of(Word word, std::uint64_t count, bool is_signalled);
  /// Posts it, and those that are chained to it.
  void post(ibv_send_wr& first) {
    if (auto failure = sends_.post(first)) [[unlikely]]
      fail_with(std::move(*failure));
  }
  // slices.cpp
  void send(const SliceHeader& header, const std::byte* payload, const Registration* lent);
  bool take_offer(std::uint32_t count);
  void take(const ibv_wc& completion);
  void take_word(std::uint32_t immediate, std::uint32_t bytes);
  int take_some();
  void look_for_events();
  void end();
  void see_off();

  const std::shared_ptr<Peer> peer_;
  DevicePair device_;
  PairEnds ends_;
  SendQueue sends_;
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<CompletionGroup> completion_group_;
  unsigned links_ = 0;
  bool is_armed_ = false;
  std::uint32_t receives_owed_ = 0;  ///< to be posted again

  SentSlots sent_;
  ReceivedSlots received_;
  LentMemory lent_;
  TakenOffers taken_;
  MadeOffers made_;
  std::uint32_t left_ = 0;  ///< ends of the peer that are gone
  std::optional<Failure> failure_;
  bool is_cause_known_ = false;  ///< failure_ is more than a flushed request
};

}  // namespace ccoll::verbs
