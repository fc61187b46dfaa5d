// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All messages between this rank and one other, in both directions.

#include <cstddef>
#include <memory>

#include "comm/groups/group.hpp"
#include "comm/messages/inbox.hpp"
#include "comm/messages/landings.hpp"
#include "comm/messages/message_limits.hpp"
#include "comm/messages/message_operation.hpp"
#include "comm/messages/pending_messages.hpp"
#include "comm/messages/receiving_side.hpp"
#include "comm/messages/sending_side.hpp"
#include "core/result.hpp"
#include "engine/links.hpp"

namespace ccoll {

class Channel {
 public:
  /// The channels of a communicator have these in common.
  struct Shared {
    const Group& group;
    LinkTable& links;
    const MessageLimits& limits;
    PendingMessages& pending;
    Inbox& inbox;
  };
  /// `link`: of the peer's eager slices and answers.
  Channel(Rank peer, ReceiveLink& link, const Shared& shared);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Rank peer() const { return peer_; }
  SendingSide& sending() { return sending_; }
  ReceivingSide& receiving() { return receiving_; }
  const ReceivingSide& receiving() const { return receiving_; }

  /// Whether an operation under way names this peer.
  bool is_in_use() const { return operations_ > 0; }
  /// Moves everything on, for a bounded number of slices. `listen`: also for what nobody awaits.
  Status advance(bool listen);

  /// Whether the link that such an operation waits for has been connected.
  bool is_connected(MessageOperation::Stage stage) const;
  /// Whether a payload link in that direction exists that may make a buffer direct.
  bool may_be_direct(MessageOperation::What what) const;
  /// Has that link make it direct.
  Result<std::shared_ptr<const DirectMemory>> make_direct(MessageOperation::What what,
                                                          const ExportedMemory& memory);
  /// Adds the traffic so far.
  void add_traffic(TrafficTable& table) const;

 private:
  Status push_eager_slices();

  const Rank peer_;
  const std::size_t& operations_;  // under way with this peer by name
  Landings landings_;
  SendingSide sending_;
  ReceivingSide receiving_;
};

}  // namespace ccoll
