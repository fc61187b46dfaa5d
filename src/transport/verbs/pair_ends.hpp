// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The two ends of directions that a queue pair has at this rank. The service thread opens and
/// connects each, perhaps while the other is in use. Once an end is connected, its memory belongs
/// to the links' user.

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/result.hpp"
#include "system/locks.hpp"
#include "system/segment.hpp"
#include "transport/link.hpp"
#include "transport/slot_budget.hpp"
#include "transport/verbs/device_pair.hpp"
#include "transport/verbs/offers.hpp"
#include "transport/verbs/slot_counts.hpp"

namespace ccoll::verbs {

/// An end of a direction; a bit each.
enum class End : std::uint32_t { sends = 1, receives = 2 };

/// Precedes a payload in its slot.
struct SlotHead {
  std::uint32_t offers_seen = 0;  ///< offers that the sender has seen
  std::uint32_t is_placed = 0;    ///< the payload lies where the receiver wanted it
  SliceHeader slice;
};
static_assert(sizeof(SlotHead) == 40);

/// One direction's memory at one end: kSlots slots, then kOffers places for offers. The peer's
/// memory has the same layout. The receiver's slots are written to, the sender's are written from.
struct SlotMemory {
  static constexpr std::size_t kSlotBytes = kCommonSliceBytes;
  /// The header ends where the payload begins, on a cache line's border.
  static constexpr std::size_t kPayloadAt = 64;
  static constexpr std::size_t kStride = kPayloadAt + kSlotBytes;
  static constexpr std::size_t kOffersAt = kSlots * kStride;
  static constexpr std::size_t kBytes = kOffersAt + kOffers * sizeof(Offer);

  std::byte* payload(std::uint64_t count) const {
    return memory->data() + count % kSlots * kStride + kPayloadAt;
  }
  std::byte* offer_place(std::uint32_t count) const {
    return memory->data() + kOffersAt + count % kOffers * sizeof(Offer);
  }
  /// Sets the request's target to the peer's copy of `address`.
  void to_same_place(ibv_send_wr& request, std::uint64_t address) const {
    request.wr.rdma.remote_addr =
        peer_base + (address - reinterpret_cast<std::uint64_t>(memory->data()));
    request.wr.rdma.rkey = peer_key;
  }

  SlotBudget::Share share;
  std::shared_ptr<Segment> memory;
  ibv_mr* registration = nullptr;
  std::uint32_t peer_key = 0;
  std::uint64_t peer_base = 0;
};

class PairEnds {
 public:
  explicit PairEnds(DevicePair& device) : device_(device) {}
  PairEnds(const PairEnds&) = delete;
  PairEnds& operator=(const PairEnds&) = delete;

  // For the service thread.

  /// Whether `end` may be opened: it is not open and the queue pair is not over. `number`: the
  /// peer's queue pair, if known.
  bool is_free(End end, std::optional<std::uint32_t> number);
  /// Returns the address that the peer needs. `share`: SlotMemory::kBytes of the budget.
  Result<QueuePairAddress> open(End end, SlotBudget::Share share);
  /// Connects an end that is open. The peer may send before this returns on both sides: receives
  /// are posted since the device's pair was made.
  Status connect(End end, const QueuePairAddress& peer);
  /// The peer uses the queue pair too, so it must hear when this end goes.
  void confirm() { is_confirmed_ = true; }
  /// No link will take that end. Thread-safe.
  void forsake(End end) { forsaken_.fetch_or(static_cast<std::uint32_t>(end)); }

  // For the links' user.

  const SlotMemory& out() const { return out_; }
  const SlotMemory& in() const { return in_; }
  /// The forsaken ends, a set of End, of which the peer must hear; each is returned once.
  std::uint32_t take_forsaken() {
    return forsaken_.load(std::memory_order_relaxed) == 0 ? 0 : forsaken_.exchange(0);
  }
  /// From here on no end is opened.
  void close();
  /// Whether the peer must hear that this rank goes; true once.
  bool take_confirmed() { return is_confirmed_.exchange(false); }
  /// Ends the registrations of its memory, which the device no longer uses.
  void release();

 private:
  /// The ends are opened and connected under its lock.
  struct Connection {
    std::optional<std::uint32_t> peer_number;  ///< once it is set, `outcome` holds:
    Status outcome;
    bool is_over = false;
  };

  SlotMemory& memory_of(End end) { return end == End::sends ? out_ : in_; }

  DevicePair& device_;
  SlotMemory out_;
  SlotMemory in_;
  Guarded<Connection> connection_;
  std::atomic<bool> is_confirmed_{false};
  std::atomic<std::uint32_t> forsaken_{0};
};

}  // namespace ccoll::verbs
