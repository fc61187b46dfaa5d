// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The receiving side of a channel: the messages of one other rank to this one. Answers through the
/// sending side, and hands to it the peer's answers. messages.hpp has the protocol.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "comm/messages/copier_choices.hpp"
#include "comm/messages/inbox.hpp"
#include "comm/messages/landings.hpp"
#include "comm/messages/matching.hpp"
#include "comm/messages/message_frame.hpp"
#include "comm/messages/message_limits.hpp"
#include "comm/messages/message_operation.hpp"
#include "comm/messages/pending_messages.hpp"
#include "comm/messages/sending_side.hpp"
#include "core/result.hpp"
#include "engine/links.hpp"

namespace ccoll {

class ReceivingSide {
 public:
  /// `link`: of the peer's eager slices and answers. `own`: this rank.
  ReceivingSide(Rank peer, Rank own, ReceiveLink& link, LinkTable& links, PendingMessages& pending,
                Inbox& inbox, Landings& landings, SendingSide& sending);

  const ReceiveLink& link() const { return link_; }
  /// Null before the first payload.
  ReceiveLink* payload_link() const { return payload_link_; }
  /// Whether the link has failed: nothing more comes.
  bool has_ended() const { return has_ended_; }

  /// Reads eager slices and answers, for a bounded number of slices.
  Status read_eager_slices();
  /// Reads payloads, for a bounded number of bytes.
  Status read_payloads();
  /// A message that came before its receive.
  Status take(MessageOperation& recv, const Unexpected& message);
  /// The next receive whose payload comes, if there is one.
  const MessageOperation* one_arriving() const {
    return arriving_.empty() ? nullptr : arriving_.front();
  }

  enum class Found : std::uint8_t { nothing, message, another_way };
  /// Takes the next message of that pattern, which names this peer, if it comes while
  /// `keeps_polling` returns true. That is asked after each look in vain. The message has at most
  /// `bytes` bytes, which `data` has.
  Found take_now(const Pattern& pattern, std::byte* data, std::size_t bytes, DataType type,
                 Received& got, const std::function<bool()>& keeps_polling);

  const Traffic& traffic() const { return traffic_; }

 private:
  /// The slice at the front of the link, of which at least the header has come, and the receive
  /// that takes it, if one is known already.
  struct Incoming {
    Frame frame;
    MessageOperation* receive = nullptr;
  };

  static constexpr std::size_t kReadAtOnce = 256 << 10;

  Status peek();
  /// Reads the slice that has been peeked at, if it has come.
  Result<bool> read_incoming();
  /// Reads a credit, if that comes next.
  bool read_credit();
  /// Waits until the header of a whole message is the next one.
  Found wait_for_message(const std::function<bool()>& keeps_polling);
  Envelope envelope_of(std::size_t head_bytes) const;
  Status read_frame(const ReceiveLink::View& view);
  void count_arrival(std::size_t head_bytes) {
    traffic_.messages_received++;
    traffic_.bytes_received += head_bytes;
  }
  bool has_right_to(const Envelope& envelope, std::size_t head_bytes) const;
  Status arrive(const Envelope& envelope, const std::byte* head, std::size_t head_bytes);
  Status take(MessageOperation& recv, const Envelope& envelope, const std::byte* head,
              std::size_t head_bytes);
  /// Chooses which side copies the message's payload.
  void begin_transfer(MessageOperation& recv);
  Status ended();

  const Rank peer_;
  const Rank own_;
  ReceiveLink& link_;
  LinkTable& links_;
  PendingMessages& pending_;
  Inbox& inbox_;
  Landings& landings_;
  SendingSide& sending_;
  ReceiveLink* payload_link_ = nullptr;
  bool has_ended_ = false;

  std::optional<Incoming> incoming_;
  std::deque<MessageOperation*> arriving_;  // receives, as cleared to send
  std::size_t kept_ = 0;                    ///< what this rank's queue holds of the peer's
  CopierChoices choices_;
  Traffic traffic_;
};

}  // namespace ccoll
