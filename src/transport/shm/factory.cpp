// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/factory.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/deadline.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "transport/arrival_board.hpp"
#include "transport/shm/door.hpp"
#include "transport/shm/visit.hpp"

namespace ccoll::shm {
namespace {

/// At most this many communicators keep shared slots ready for links yet to be opened, which takes
/// a descriptor each. Older ones serve only the links that already have them.
constexpr std::size_t kMostOpenMulticasts = 32;

Result<std::shared_ptr<Segment>> no_slots(const SlotBudget& budget) {
  return fail(ErrorKind::exhausted,
              "the slots of this rank's links in shared memory may take {} MiB, of which {} are "
              "taken (CCOLL_SLOT_MEMORY)",
              budget.limit_bytes() >> 20, budget.taken_bytes() >> 20);
}

/// Maximum number of slices by which a sender may be ahead, if it has slots. They occupy a cache
/// until they are read, and the ranks of a host share one. With four or more ranks, and so many
/// links, more slices cost as often as they help.
std::uint32_t lines_of(const TransportContext& context) {
  const auto host = context.table[context.rank].host;
  const auto here = std::ranges::count(context.table, host, &PeerAddress::host);
  return here == 2 ? Ring::kLines : Ring::kLines / 2;
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(const TransportContext& context, std::shared_ptr<Transport> next)
      : context_(context), fallback_(std::make_shared<Fallback>(context.rank, std::move(next))) {
    // A rank without a port has no peers, and no address for a door.
    if (context_.table[context_.rank].port == 0) return;
    std::optional<Failure> refusal;
    if (const auto works = Segment::make("ccoll-probe", Ring::kFirstSlot); !works) {
      // Only pairs that need shared memory warn.
      refusal = works.error();
      log().info("rank {}: {}", context_.rank, refusal->message);
    }
    auto door = Door::open(
        context_, [meeting = meeting_](const LinkId& id) { return meeting->has_place(id); },
        [meeting = meeting_](const LinkId& id, Offer offer) {
          if (const auto waiter = meeting->waiter_of(id)) hand_doorbell(offer, *waiter->doorbell());
          if (const auto unwanted = meeting->arrive(id, std::move(offer))) decline(*unwanted);
        },
        borrowed_, std::move(refusal));
    if (door)
      door_ = std::move(*door);
    else if (door.error().kind == ErrorKind::exhausted)
      no_door_ = std::move(door.error());
    else
      log().warn("rank {}: no shared memory: {}", context_.rank, door.error().message);
  }

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    if (no_door_) return tl::unexpected(*no_door_);
    auto* const next = fallback_->transport();
    if (next != nullptr && fallback_->serves(id.to)) return next->open_send(id, std::move(waiter));
    auto slots = budget_->take_unless_scarce(kLinkSlots * kSlotBytes);
    const bool is_thrifty = !slots;
    if (is_thrifty) slots = budget_->take(kThriftyBytes);
    auto memory = slots ? Segment::make("ccoll-link", Ring::kBytes) : no_slots(*budget_);
    if (!memory) {
      const auto why =
          fmt::format("no shared memory with rank {}: {}", id.to, memory.error().message);
      if (next == nullptr) return fail(memory.error().kind, "{}", why);
      if (!slots) {
        // Only this link falls back: slots may be free again when the next one is opened.
        if (!has_lacked_slots_.exchange(true))
          log().warn("rank {}: {}; further links use another transport", context_.rank,
                     memory.error().message);
        return next->open_send(id, std::move(waiter));
      }
      fallback_->settle(id.to, why);
      fallback_->works(id.to);
      return open_send(id, std::move(waiter));
    }
    Ring::make((*memory)->data())->is_thrifty = is_thrifty ? 1 : 0;
    auto hand_over = std::make_shared<HandOver>();
    hand_over->memory = std::move(*memory);
    std::tie(hand_over->multicast, hand_over->multicast_file) = multicast_slots_of(id.communicator);
    hand_over->waiter = std::move(waiter);
    hand_over->makes_pages =
        !is_thrifty && context_.works_ahead(id.communicator) && may_open_ahead(context_);
    if (context_.single_copy) hand_over->mark = process_mark();
    offer_link(context_, id, doors_open_, hand_over);
    return std::make_unique<ShmSendLink>(id, std::move(hand_over), std::move(slots), lines_,
                                         context_.oversubscribed, lender_to(id.to), huge_pages_,
                                         fallback_);
  }

  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    if (no_door_) return tl::unexpected(*no_door_);
    std::unique_ptr<ReceiveLink> fallback_link;
    if (auto* const next = fallback_->transport()) {
      auto opened = next->open_receive(id, waiter);
      if (!opened) return tl::unexpected(opened.error());
      fallback_link = std::move(*opened);
    }
    auto delivery = meeting_->await(id, waiter);
    return std::make_unique<ShmReceiveLink>(id, std::move(delivery), borrowed_, budget_,
                                            std::move(fallback_link), std::move(waiter));
  }

  void listen(std::shared_ptr<Arrivals> arrivals) override {
    meeting_->listen(std::move(arrivals));
  }
  bool gave_up(std::uint32_t peer) override { return fallback_->serves(peer); }
  void forget(std::uint64_t communicator) override {
    meeting_->forget(communicator, [](const Offer& offer) { decline(offer); });
    shared_.lock()->multicast_slots.erase(communicator);
  }

 private:
  struct Shared {
    std::map<std::uint32_t, std::shared_ptr<Lender>> lenders;  ///< by rank
    /// By communicator; null if there is no memory.
    std::map<std::uint64_t, std::shared_ptr<MulticastSlots>> multicast_slots;
    std::vector<std::weak_ptr<MulticastSlots>> open_multicasts;  ///< oldest first

    void keep_open(const std::shared_ptr<MulticastSlots>& multicast) {
      open_multicasts.push_back(multicast);
      if (open_multicasts.size() <= kMostOpenMulticasts) return;
      std::erase_if(open_multicasts, [](const auto& each) { return each.expired(); });
      if (open_multicasts.size() <= kMostOpenMulticasts) return;
      if (const auto oldest = open_multicasts.front().lock()) oldest->close_file();
      open_multicasts.erase(open_multicasts.begin());
    }
  };

  std::shared_ptr<Lender> lender_to(std::uint32_t peer) {
    const auto shared = shared_.lock();
    auto& lender = shared->lenders[peer];
    if (!lender) lender = Lender::make(context_, peer, doors_open_);
    return lender;
  }

  using MulticastAndFile =
      std::pair<std::shared_ptr<MulticastSlots>, std::shared_ptr<const FileDescriptor>>;
  MulticastAndFile multicast_slots_of(std::uint64_t communicator) {
    const auto shared = shared_.lock();
    const auto [found, is_new] = shared->multicast_slots.try_emplace(communicator);
    auto& multicast = found->second;
    const bool is_lacking = is_new || (multicast && !multicast->file());
    // With two ranks no slice has several receivers.
    if (is_lacking && context_.table.size() > 2) {
      multicast = MulticastSlots::make(*budget_);
      if (multicast) shared->keep_open(multicast);
    }
    if (!multicast) return {};
    return {multicast, multicast->file()};
  }

  const TransportContext context_;
  const std::uint32_t lines_ = lines_of(context_);
  const std::shared_ptr<Fallback> fallback_;
  const std::shared_ptr<SlotBudget> budget_ =
      std::make_shared<SlotBudget>(context_.slot_memory_bytes);
  const std::shared_ptr<ArrivalBoard<Offer>> meeting_ =
      std::make_shared<ArrivalBoard<Offer>>(context_.rank);
  const std::shared_ptr<Borrowed> borrowed_ = std::make_shared<Borrowed>();
  const std::shared_ptr<HugePages> huge_pages_ = std::make_shared<HugePages>(context_.huge_pages);
  std::unique_ptr<Door> door_;
  /// Why this rank has no door, if a resource ran out. Links then fail at once; otherwise peers
  /// would knock until the start-up limit.
  std::optional<Failure> no_door_;
  /// By this time a peer's start-up is over, or the peer is lost.
  const std::chrono::steady_clock::time_point doors_open_ =
      deadline_after(std::max<std::chrono::milliseconds>(context_.connect_timeout, kDoorOpens));
  std::atomic<bool> has_lacked_slots_{false};
  Guarded<Shared> shared_;
};

}  // namespace

bool reaches(const PeerAddress& a, const PeerAddress& b) {
  return a.host == b.host && a.port != 0 && b.port != 0;
}

bool may_open_ahead(const TransportContext& context) {
  // Three for each other rank: for envelopes and short messages, for the data of long ones, and for
  // collectives.
  const auto links = 3 * (context.table.size() - 1);
  return links * kLinkSlots * kSlotBytes <= context.slot_memory_bytes / 16;
}

std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport> next) {
  return std::make_shared<ShmTransport>(context, std::move(next));
}

}  // namespace ccoll::shm
