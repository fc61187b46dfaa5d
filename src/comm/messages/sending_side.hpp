// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The sending side of a channel: this rank's messages to one other rank, and its answers to that
/// rank's messages. Spends the credit that the peer gives, never more, and requests to send where
/// it does not suffice. messages.hpp has the protocol.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>

#include "comm/messages/landings.hpp"
#include "comm/messages/matching.hpp"
#include "comm/messages/message_frame.hpp"
#include "comm/messages/message_limits.hpp"
#include "comm/messages/message_operation.hpp"
#include "comm/messages/pending_messages.hpp"
#include "core/result.hpp"
#include "engine/links.hpp"

namespace ccoll {

class SendingSide {
 public:
  /// `own`: this rank.
  SendingSide(Rank peer, Rank own, LinkTable& links, const MessageLimits& limits,
              PendingMessages& pending, Landings& landings)
      : peer_(peer),
        own_(own),
        links_(links),
        limits_(limits),
        pending_(pending),
        landings_(landings) {}

  /// Opens the link of eager slices and answers, if it is not open.
  Status open();
  /// Null before open().
  const SendLink* link() const { return link_; }
  /// Null before the first payload.
  SendLink* payload_link() const { return payload_link_; }

  void queue(MessageOperation& send) { queued_.push_back(&send); }
  bool has_queued() const { return !queued_.empty(); }
  /// Whether the credit does not suffice for the next one.
  bool lacks_credit() const { return credit_ < kEnvelopeBytes + head_bytes(*queued_.front()); }
  /// Pushes the eager slice of the next one; false if the link has no room.
  Result<bool> push_queued();
  /// Pushes payloads, for a bounded number of slices.
  Status push_payloads();
  /// Completes what the links have taken. `arriving`: the next receive with a payload, if there is
  /// one, whose clear to send may be stuck here.
  Status flush(const MessageOperation* arriving);
  /// A send that waits for clear to send, if there is one.
  const MessageOperation* one_requested() const {
    return requested_.empty() ? nullptr : requested_.begin()->second;
  }

  enum class Sent : std::uint8_t {
    no,        ///< nothing was done
    flushing,  ///< all is pushed; finish() waits until the link has taken it
    yes,
  };
  /// Sends a short message, unless that takes more than to push its eager slice.
  Sent send_now(std::uint32_t tag, const std::byte* data, std::size_t bytes, DataType type);
  /// Finishes a send whose message is pushed.
  void finish(MessageOperation& send);

  // From the peer.

  /// False if that much has not been spent.
  bool take_credit(std::uint64_t bytes);
  Status cleared_to_send(const Frame& clear_to_send);

  // For the peer.

  /// A clear to send, and the receive that it completes, if any.
  struct Answer {
    std::uint64_t id = 0;
    MessageOperation* completes = nullptr;
    std::uint32_t slice_bytes = 0;
    bool in_slots = false;
  };
  void answer(const Answer& answer) { answers_.push_back(answer); }
  /// That much of the peer's credit has become free.
  void owe(std::size_t credit) { owed_ += credit; }
  /// Whether there is something to tell the peer.
  bool has_news() const { return !answers_.empty() || owed_ >= kUnexpectedBytes / 2; }
  /// Tells it.
  Status push_control();

  const Traffic& traffic() const { return traffic_; }

 private:
  Status push_eager(MessageOperation& send);
  /// The header of the next eager slice, with that much data.
  SliceHeader next_head(Frame frame, std::size_t bytes) const;
  /// Accounts for an eager slice that is sent.
  void count_eager(const SliceHeader& head, bool charged);
  /// Data that the eager slice carries if credit suffices.
  std::size_t head_bytes(const MessageOperation& send) const;
  /// The next bytes to lend to the link; empty while they are still on the way to the host.
  Result<std::span<const std::byte>> next_of(MessageOperation& send);
  /// The operation that the failure of `link_` hits, if there is one.
  const MessageOperation* one_hit(const Failure& failure, const MessageOperation* arriving) const;

  const Rank peer_;
  const Rank own_;
  LinkTable& links_;
  const MessageLimits& limits_;
  PendingMessages& pending_;
  Landings& landings_;
  SendLink* link_ = nullptr;
  SendLink* payload_link_ = nullptr;

  std::deque<MessageOperation*> queued_, sending_;             // sends by stage
  std::map<std::uint64_t, MessageOperation*> requested_;       // by id
  std::deque<MessageOperation*> flushing_, flushing_payload_;  // by link
  std::deque<Answer> answers_;                                 // to be pushed
  std::uint64_t next_id_ = 1;
  std::size_t credit_ = kUnexpectedBytes;  ///< what the peer's queue still takes
  std::size_t owed_ = 0;                   ///< what this rank's queue has free again
  Traffic traffic_;
  std::unique_ptr<std::byte[]> gather_room_;
};

}  // namespace ccoll
