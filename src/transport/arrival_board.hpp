// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Matches links that peers open with the receiving ends that this rank opens, in either order. One
/// per rank and transport. Thread-safe.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/latest.hpp"
#include "core/result.hpp"
#include "net/service.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "transport/arrivals.hpp"
#include "transport/link.hpp"
#include "transport/waiter.hpp"

namespace ccoll {

/// Hands the connection of a link from the service thread, which makes or accepts it, to the link
/// that will own it.
template <typename T>
class Delivery {
 public:
  /// On the service thread, once: the connection of the link, or why there is none.
  void deliver(T thing) { deliver(State::there, thing_, std::move(thing)); }
  void deliver(Failure failure) { deliver(State::failed, failure_, std::move(failure)); }

  /// By the link, cheap while nothing is there: moves the connection out, once.
  std::optional<T> take() {
    if (state_.load(std::memory_order_acquire) != State::there) return std::nullopt;
    state_.store(State::taken, std::memory_order_relaxed);
    return std::exchange(thing_, std::nullopt);
  }
  /// Whether take() would return it.
  bool there() const { return state_.load(std::memory_order_acquire) == State::there; }
  const Failure* failure() const {
    return state_.load(std::memory_order_acquire) == State::failed ? &*failure_ : nullptr;
  }

 private:
  enum class State : std::uint8_t { awaited, there, taken, failed };

  template <typename U>
  void deliver(State state, std::optional<U>& place, U value) {
    place = std::move(value);
    state_.store(state, std::memory_order_release);
  }

  std::optional<T> thing_;          // published by state_
  std::optional<Failure> failure_;  // published by state_
  std::atomic<State> state_{State::awaited};
};

/// `T`: the connection of a link.
template <typename T>
class ArrivalBoard {
 public:
  /// `descriptors`: used by each connection that waits.
  explicit ArrivalBoard(std::uint32_t rank, std::size_t descriptors = 1)
      : rank_(rank), descriptors_(descriptors) {}

  /// For the receiving end of `id`: a delivery that has arrived or will.
  std::shared_ptr<Delivery<T>> await(const LinkId& id, const std::shared_ptr<Waiter>& waiter) {
    const auto links = links_.lock();
    if (const auto found = links->arrived.find(id); found != links->arrived.end()) {
      auto delivery = std::move(found->second);
      links->arrived.erase(found);
      return delivery;
    }
    auto delivery = std::make_shared<Delivery<T>>();
    links->awaited[id] = {delivery, waiter};
    links->drop_gone();
    return delivery;
  }

  /// Whether `id` may arrive. If not, its sender must retry: a peer may be ahead by any number of
  /// links, but must not use up this process's descriptors.
  bool has_place(const LinkId& id) {
    const auto links = links_.lock();
    if (links->awaited.contains(id) || links->forgotten.contains(id.communicator)) return true;
    if (links->arrived.size() * descriptors_ < net::waiting_connections()) return true;
    if (!std::exchange(links->has_complained, true))
      log().warn(
          "rank {}: {} connections wait for calls that this rank has not made yet; further senders "
          "have to wait (a higher ulimit -n admits more)",
          rank_, links->arrived.size());
    return false;
  }

  /// The waiter of the receiving end of `id`; null if it is not open.
  std::shared_ptr<Waiter> waiter_of(const LinkId& id) {
    const auto links = links_.lock();
    const auto found = links->awaited.find(id);
    return found == links->awaited.end() ? nullptr : found->second.waiter.lock();
  }

  /// A peer has opened `id`. Returns `thing` if nobody will take it; the caller then says so to the
  /// peer.
  std::optional<T> arrive(const LinkId& id, T thing) {
    const auto links = links_.lock();
    if (const auto found = links->awaited.find(id); found != links->awaited.end()) {
      const auto delivery = found->second.delivery.lock();
      const auto waiter = found->second.waiter.lock();
      links->awaited.erase(found);
      if (!delivery) return thing;
      delivery->deliver(std::move(thing));
      if (waiter) waiter->ring();
      return std::nullopt;
    }
    if (links->forgotten.contains(id.communicator)) return thing;
    // Each link connects once; drop a second connection.
    const auto [entry, is_new] = links->arrived.try_emplace(id, std::make_shared<Delivery<T>>());
    if (!is_new) return thing;
    entry->second->deliver(std::move(thing));
    if (const auto listener = links->listening.find(id.communicator);
        listener != links->listening.end())
      if (listener->second->concern(id)) listener->second->add(id.from);
    return std::nullopt;
  }

  /// As Transport's.
  void listen(std::shared_ptr<Arrivals> arrivals) {
    const auto links = links_.lock();
    const auto [begin, end] = links_of(arrivals->communicator(), links->arrived);
    for (auto each = begin; each != end; ++each)
      if (arrivals->concern(each->first)) arrivals->add(each->first.from);
    const auto communicator = arrivals->communicator();
    links->listening[communicator] = std::move(arrivals);
  }

  /// As Transport's. Calls `dropped` with each connection that had arrived.
  template <typename Dropped>
  void forget(std::uint64_t communicator, Dropped dropped) {
    const auto links = links_.lock();
    const auto [awaited_begin, awaited_end] = links_of(communicator, links->awaited);
    links->awaited.erase(awaited_begin, awaited_end);
    const auto [begin, end] = links_of(communicator, links->arrived);
    for (auto each = begin; each != end; ++each)
      if (auto thing = each->second->take()) dropped(std::move(*thing));
    links->arrived.erase(begin, end);
    links->listening.erase(communicator);
    links->forgotten.add(communicator);
  }

 private:
  /// Communicators that have ended, remembered for links that are still on their way.
  static constexpr std::size_t kForgotten = 1024;
  /// With this many waiting, await() begins to look for ends that are gone.
  static constexpr std::size_t kFewAwaited = 64;

  /// A receiving end whose peer has not come yet; expires with its link.
  struct Awaited {
    std::weak_ptr<Delivery<T>> delivery;
    std::weak_ptr<Waiter> waiter;
  };

  struct Links {
    std::map<LinkId, Awaited> awaited;
    std::size_t drop_gone_at = kFewAwaited;
    std::map<LinkId, std::shared_ptr<Delivery<T>>> arrived;
    std::map<std::uint64_t, std::shared_ptr<Arrivals>> listening;  ///< by communicator
    Latest<std::uint64_t, kForgotten> forgotten;
    bool has_complained = false;

    /// Drops receiving ends that are gone. Rare, so that opening one does not scan all others.
    void drop_gone() {
      if (awaited.size() < drop_gone_at) return;
      std::erase_if(awaited, [](const auto& entry) { return entry.second.delivery.expired(); });
      drop_gone_at = std::max(kFewAwaited, 2 * awaited.size());
    }
  };

  const std::uint32_t rank_;
  const std::size_t descriptors_;
  Guarded<Links> links_;
};

}  // namespace ccoll
