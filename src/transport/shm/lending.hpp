// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Registered memory on its way to a peer, so that a slice of it can be lent: the peer's process
/// maps it once, and drops it when it is no longer registered or its owner has gone. Everything
/// else travels through the rings, also a slice whose memory the peer has not mapped (yet).

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "system/segment.hpp"
#include "transport/registered_memory.hpp"
#include "transport/shm/visit.hpp"
#include "transport/transport.hpp"

namespace ccoll::shm {

/// What one rank lends to one peer. Thread-safe.
class Lender : public RegisteredMemories::Watcher {
 public:
  struct Place {
    std::uint32_t memory;
    std::uint64_t offset;
  };
  /// Where the peer finds these bytes. Nothing where they are not registered or the peer cannot map
  /// them, and until it has: the first time that is asked begins the hand-over.
  virtual std::optional<Place> find(const std::byte* data, std::size_t bytes) = 0;

  /// To that rank, whose door opens by `doors_open` if at all.
  static std::shared_ptr<Lender> make(const TransportContext& context, std::uint32_t to,
                                      std::chrono::steady_clock::time_point doors_open);
};

/// What one rank's peers lend to it. Thread-safe.
class Borrowed {
 public:
  /// Null where that rank has taken it back.
  std::shared_ptr<const Segment> find(std::uint32_t from, std::uint32_t memory) const;

  /// On the service thread: what the rank behind `socket`, which has proven the token, offers and
  /// takes back, until it has gone. This is rank `rank` of `size`.
  static asio::awaitable<void> serve(std::shared_ptr<Borrowed> self, Socket& socket,
                                     std::uint32_t rank, std::size_t size);

 private:
  /// Out of the table: that memory of that rank, or any. Unmapped, which takes a while, without the
  /// lock.
  std::shared_ptr<const Segment> take(std::uint32_t from, std::optional<std::uint32_t> memory);

  using Key = std::pair<std::uint32_t, std::uint32_t>;  // rank, number in its process

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Segment>> mapped_;  // guarded by mutex_
};

}  // namespace ccoll::shm
