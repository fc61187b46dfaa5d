// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages between two ranks of a communicator: the protocol, and the state of every send, receive
/// and probe under way. It knows the links, nothing of plans or of waiting threads. Only the holder
/// of the communicator's owner flag calls it.
///
/// A rank has two links to each rank it talks to: one for eager slices and for the answers to the
/// peer's (control), and a bulk link for payloads. A message begins with an eager slice: the
/// envelope and up to `eager_bytes` of data, which are its *head*. The slice is charged to the
/// sender's credit, which is the room that the receiver keeps for messages without a receive. If
/// the credit does not suffice, the slice carries no data and costs nothing. It requests to send if
/// it is not the whole message, if it is not charged, or if sends are strict. The receiver clears
/// the sender to send when a receive takes the message; then the *payload* follows, lent from the
/// sender's memory and placed in the receiver's. Credit comes back with each clear to send, and by
/// itself once half of it is spent.
///
///     send:   queued ──slice pushed──┬─ no request to send ────────────► flushing ─► done
///                                    └─ requested ─cleared─┬─ no payload ─► done
///                                                          └─ sending ────► flushing ─► done
///     recv:   posted ─► arriving ─slice come─┬─ no request to send ────────────► done
///                                            ├─ whole, clear pushed ─► flushing ─► done
///                                            └─ clear pushed, payload comes ────► done
///     probe:  posted ──a message waits► done
///
/// A long message in device memory is copied in pieces (device::DeviceToHost, HostToDevice): its
/// eager slice carries no data, its payload is lent as it reaches the host, and a receive is
/// `landing` before it is done.
///
/// Why nothing deadlocks: an eager slice never waits for credit, so every message is announced as
/// soon as its link has room. A rank whose operations, of whatever kind, do not move listens to all
/// that have begun to send to it before it sleeps, so that room comes. A link that is opened to it
/// rings its waiter (transport/arrivals.hpp): it then opens its own end, and no others; only small
/// jobs open all ahead. A receiver keeps, per sender, at most kUnexpectedBytes of eager slices, and
/// an envelope for each send that its sender still waits in. A rank without an operation under way
/// listens to nobody.
///
/// A Channel has the protocol with one peer, in a sending and a receiving side. The Inbox has the
/// messages, receives and probes that wait for each other, and PendingMessages all operations.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/groups/group.hpp"
#include "comm/messages/channel.hpp"
#include "comm/messages/inbox.hpp"
#include "comm/messages/matching.hpp"
#include "comm/messages/message_limits.hpp"
#include "comm/messages/message_operation.hpp"
#include "comm/messages/pending_messages.hpp"
#include "comm/progress/operation.hpp"
#include "comm/record/flight_recorder.hpp"
#include "comm/record/tracing.hpp"
#include "core/result.hpp"
#include "engine/links.hpp"

namespace ccoll {

class Messages {
 public:
  using Limits = MessageLimits;
  using ForCaller = PendingMessages::ForCaller;

  Messages(const Group& group, LinkTable& links, const Limits& limits, ForCaller for_caller);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  /// Reports operations that begin to `recorder`, and those that are over to `tracing`, unless that
  /// is null.
  void record(FlightRecorder* recorder, Tracing* tracing) { pending_.record(recorder, tracing); }

  /// Whether a link exists that may make its buffer direct: there is none before the first payload
  /// in that direction.
  bool may_be_direct(const MessageOperation& operation) const;
  /// Has that link make it direct.
  Result<std::shared_ptr<const DirectMemory>> make_direct(const MessageOperation& operation,
                                                          const ExportedMemory& memory);
  /// Puts it into its queue and takes what has already come for it. A failure is final.
  Status post(const std::shared_ptr<MessageOperation>& operation);
  /// Looks at what has come; returns the message that such a probe finds.
  Result<std::optional<Received>> look(const Pattern& pattern);

  /// Moves everything on, for a bounded number of slices; true if anything moved.
  Result<bool> advance(Attention attention);

  // For blocking calls of short messages, which fit into an eager slice, while no operation is
  // under way. Neither of them allocates; every other case is left to post().

  using Sent = SendingSide::Sent;
  Sent send_now(const Pattern& to, const std::byte* data, std::size_t bytes, DataType type) {
    auto* const channel = channel_if_open(*to.from);
    return channel == nullptr ? Sent::no : channel->sending().send_now(*to.tag, data, bytes, type);
  }
  using Found = ReceivingSide::Found;
  /// Takes the next message from the rank that the pattern names, if it comes while `keeps_polling`
  /// returns true, which is asked after each look in vain. The message has at most `most` bytes,
  /// and no more than `bytes`, which `data` has.
  Found take_now(const Pattern& from, std::byte* data, std::size_t bytes, std::size_t most,
                 DataType type, Received& got, const std::function<bool()>& keeps_polling) {
    auto* const channel = channel_if_open(*from.from);
    if (channel == nullptr) return Found::another_way;
    return channel->receiving().take_now(from, data, std::min(bytes, most), type, got,
                                         keeps_polling);
  }
  /// Finishes a send whose message is pushed.
  void finish(const std::shared_ptr<MessageOperation>& send);

  bool busy() const { return !pending().empty(); }
  /// Operations under way, in no order.
  const std::vector<std::shared_ptr<MessageOperation>>& pending() const { return pending_.all(); }
  /// Ends a probe, of which nobody else knows.
  void give_up(MessageOperation& probe, Failure failure) {
    inbox_.give_up(probe, std::move(failure));
  }
  /// Ends all of them, for good.
  void end_all(const Failure& failure);
  /// The same, but leaves links as they are.
  void end_pending(const Failure& failure);

  /// Adds the traffic so far.
  void add_traffic(TrafficTable& table) const;
  /// By rank: how many receives its messages did not fit.
  const std::map<Rank, std::uint64_t>& refused() const { return inbox_.refused(); }

  /// "recv from rank 0 tag 7 (a buffer of 200 bytes) on rank 1".
  std::string name_of(const MessageOperation& operation) const;
  /// How far it has come, for one that does not move.
  std::string standing(const MessageOperation& operation) const;
  /// Changes whenever it has come further.
  static std::uint64_t progress_of(const MessageOperation& operation) {
    constexpr std::uint64_t kStages = 8;
    return operation.moved_bytes * kStages + static_cast<std::uint64_t>(operation.stage);
  }
  /// The ranks it waits for: its peer, or all that may still send.
  std::vector<Rank> awaited(const MessageOperation& operation) const;
  /// Whether a connection from that rank has arrived.
  bool hears(Rank rank) const;
  /// Whether it waits in vain: for ranks that `has_left` names and whose links, which would report
  /// it themselves, have never been connected.
  bool in_vain(const MessageOperation& operation, const std::function<bool(Rank)>& has_left) const;

 private:
  using Stage = MessageOperation::Stage;
  using What = MessageOperation::What;

  /// Begins to open the links that the first messages would otherwise wait for. A failure is
  /// ignored: a link that a message needs is opened then.
  void open_ahead();
  Result<Channel*> channel_to(Rank peer);
  /// Null if it is not open.
  Channel* channel_if_open(Rank peer) const {
    return peer < by_peer_.size() ? by_peer_[peer] : nullptr;
  }
  /// Listens to all that have begun to send.
  Status open_all();

  const Group& group_;
  LinkTable& links_;
  const Limits limits_;
  PendingMessages pending_;
  Inbox inbox_;
  std::vector<std::unique_ptr<Channel>> channels_;  // those opened
  std::vector<Channel*> by_peer_;                   // up to the last one opened
  bool over_ = false;                               // no operation begins any more
  TrafficTable past_;                               // of closed channels, after end_all
};

}  // namespace ccoll
