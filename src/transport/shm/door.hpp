// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How memory gets from one process to another: over a Unix socket whose name is abstract, so that
/// nothing is left in the file system. Either end checks that the other runs as the same user and
/// knows the job's token.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/shm/link.hpp"

namespace ccoll::shm {

/// What the socket of a rank of that job is called. One per rank: no two listeners of a network
/// namespace have one port, and abstract names belong to such a namespace, too. But a forked child
/// keeps a name in use when its parent's listener has ended and the port is another's; so rank 0's
/// port is in it, too.
std::string door_name(const std::vector<PeerAddress>& table, std::uint32_t rank);

/// Where a rank is offered links, and lent memory.
class Door {
 public:
  // Both run on the service thread and must not block.

  /// Whether a link may arrive; else its sender offers it again a little later.
  using HasPlace = std::function<bool(const LinkId& id)>;
  /// Receives each offer that came to this rank.
  using Handler = std::function<void(const LinkId& id, Offer offer)>;

  /// Of the rank that `context` is about. Where it can share no memory, `refusal` says why: to all
  /// who come, who would take a door that is not there for one that opens later.
  static Result<std::unique_ptr<Door>> open(const TransportContext& context, HasPlace has_place,
                                            Handler handler, std::shared_ptr<Borrowed> borrowed,
                                            std::optional<Failure> refusal);
  /// No handler runs or will run once it returns. Waits for kHeldLimit at most.
  virtual ~Door() = default;
};

/// Offers the link to the rank it goes to, whose door opens by `doors_open` if at all, and keeps
/// `hand_over` up to date until the receiver's bell is there. Rings its waiter. Outlives the link
/// if need be.
void offer_link(const TransportContext& context, const LinkId& id,
                std::chrono::steady_clock::time_point doors_open,
                std::shared_ptr<HandOver> hand_over);

}  // namespace ccoll::shm
