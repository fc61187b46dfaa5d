// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages that have come, and the receives and probes that wait for one. No receive waits beside
/// a message that it could take. Knows no link.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "comm/groups/group.hpp"
#include "comm/messages/matching.hpp"
#include "comm/messages/message_operation.hpp"
#include "comm/messages/pending_messages.hpp"

namespace ccoll {

/// The message as its receiver sees it. `type`: for a probe, the sender's.
inline Received received(const Envelope& envelope, DataType type) {
  const auto width = std::max<std::size_t>(size_of(type), 1);
  return {static_cast<int>(envelope.from), static_cast<int>(envelope.tag), envelope.bytes / width,
          envelope.bytes};
}

class Inbox {
 public:
  Inbox(const Group& group, PendingMessages& pending) : group_(group), pending_(pending) {}

  /// Returns the message that the receive takes. If there is none, the receive waits. It fails if
  /// its buffer does not fit the message, which stays.
  std::optional<Unexpected> post(MessageOperation& recv);
  void post_probe(MessageOperation& probe);
  /// Takes the receive for that message; those before it whose buffers do not fit fail.
  MessageOperation* take_receive(const Envelope& envelope);
  /// Keeps a message that no receive takes, and answers the probes for it.
  void store(const Envelope& envelope, const std::byte* head, std::size_t head_bytes);

  /// The message that such a probe finds.
  std::optional<Received> look(const Pattern& pattern);
  /// A receive or probe that waits for any rank, if there is one.
  const MessageOperation* one_for_any() const;
  /// A probe that waits for that rank by name, if there is one.
  const MessageOperation* probe_of(Rank peer) const;
  /// By rank: how many receives its messages did not fit.
  const std::map<Rank, std::uint64_t>& refused() const { return refused_; }
  /// For messages that are taken without a receive.
  Matcher& matcher() { return matcher_; }
  const Matcher& matcher() const { return matcher_; }

  /// Ends a probe.
  void give_up(MessageOperation& probe, Failure failure);
  /// Forgets everything.
  void clear();

 private:
  void answer_probes();
  /// Binds the receive to that message, whatever its pattern. False if the receive fails, because
  /// its buffer does not fit.
  bool settle(MessageOperation& recv, const Envelope& envelope);

  const Group& group_;
  PendingMessages& pending_;
  Matcher matcher_;
  std::vector<MessageOperation*> probes_;
  std::map<Rank, std::uint64_t> refused_;
};

}  // namespace ccoll
