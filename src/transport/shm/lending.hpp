// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Hands registered memory to a peer, so that slices of it can be lent: the peer's process maps it
/// once. The peer drops it when it is deregistered or its owner has gone. All other slices travel
/// through the rings, also those whose memory the peer has not mapped yet.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "system/locks.hpp"
#include "system/segment.hpp"
#include "transport/registered_memory.hpp"
#include "transport/shm/visit.hpp"
#include "transport/transport.hpp"

namespace ccoll::shm {

/// The memory that one rank lends to one peer. Thread-safe.
class Lender : public RegisteredMemories::Watcher {
 public:
  struct Place {
    std::uint32_t memory;
    std::uint64_t offset;
  };
  /// The place of these bytes for the peer. None if they are not registered or the peer has not
  /// mapped them (yet). The first call for some memory begins the hand-over.
  virtual std::optional<Place> find(const std::byte* data, std::size_t bytes) = 0;

  /// For rank `to`, whose door opens by `doors_open` if at all.
  static std::shared_ptr<Lender> make(const TransportContext& context, std::uint32_t to,
                                      std::chrono::steady_clock::time_point doors_open);
};

/// The memory that one rank's peers lend to it. Thread-safe.
class Borrowed {
 public:
  /// Null if that rank has taken it back.
  std::shared_ptr<const Segment> find(std::uint32_t from, std::uint32_t memory) const;

  /// On the service thread: serves offers and withdrawals of the rank behind `socket`, which has
  /// proven the token, until it goes. This is rank `rank` of `size`.
  static asio::awaitable<void> serve(std::shared_ptr<Borrowed> self, Socket& socket,
                                     std::uint32_t rank, std::size_t size);

 private:
  /// Removes from the table that memory of that rank, or any. The caller unmaps it without the
  /// lock, as that takes a while.
  std::shared_ptr<const Segment> take(std::uint32_t from, std::optional<std::uint32_t> memory);

  using Key = std::pair<std::uint32_t, std::uint32_t>;  // rank, number in its process

  Guarded<std::map<Key, std::shared_ptr<const Segment>>> mapped_;
};

}  // namespace ccoll::shm
