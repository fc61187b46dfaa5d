// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Hands memory from one process to another over a Unix socket with an abstract name, which leaves
/// nothing in the file system. Either end checks that the other runs as the same user and knows the
/// job's token.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/shm/link.hpp"

namespace ccoll::shm {

/// The name of the socket of a rank of that job. It contains the rank's port: ports and abstract
/// names are both unique in a network namespace. It contains rank 0's port too: a forked child may
/// keep a name in use after its parent's listener has ended and another rank has the port.
std::string door_name(const std::vector<PeerAddress>& table, std::uint32_t rank);

/// A rank takes offers of links and lent memory here.
class Door {
 public:
  // Both run on the service thread and must not block.

  /// Whether a link may arrive; if not, its sender offers it again later.
  using HasPlace = std::function<bool(const LinkId& id)>;
  /// Takes each offer that came to this rank.
  using Handler = std::function<void(const LinkId& id, Offer offer)>;

  /// Opens the door of the rank of `context`. If the rank can share no memory, visitors get
  /// `refusal`: without a door they would wait for one to open.
  static Result<std::unique_ptr<Door>> open(const TransportContext& context, HasPlace has_place,
                                            Handler handler, std::shared_ptr<Borrowed> borrowed,
                                            std::optional<Failure> refusal);
  /// After it returns, no handler runs. Waits for kHeldLimit at most.
  virtual ~Door() = default;
};

/// Offers the link to its receiving rank, whose door opens by `doors_open` if at all. Keeps
/// `hand_over` up to date until the receiver's bell arrives, and rings its waiter. May outlive the
/// link.
void offer_link(const TransportContext& context, const LinkId& id,
                std::chrono::steady_clock::time_point doors_open,
                std::shared_ptr<HandOver> hand_over);

}  // namespace ccoll::shm
