// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that makes sends, receives and probes whose arguments are right, short
/// blocking ones the short way. The holder of the owner flag uses it.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "ccoll/communicator.hpp"
#include "comm/collectives/planner.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/limits.hpp"
#include "comm/groups/self.hpp"
#include "comm/messages/messages.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/progress/progress.hpp"
#include "comm/record/record.hpp"
#include "comm/under_way.hpp"
#include "core/result.hpp"

namespace ccoll {

inline std::size_t bytes_of(const Block& block) { return block.count * size_of(block.type); }

class MessageCalls {
 public:
  /// The parts that messages are made with.
  struct With {
    const Self& self;
    const Planner& planner;
    Progress& progress;
    Record& record;
    UnderWay& under_way;
    Failures& failures;
    const Limits& limits;
  };
  explicit MessageCalls(const With& with) : with_(with) {}

  using Batch = std::span<const std::shared_ptr<MessageOperation>>;
  /// Sets messages going, arguments already checked; `timeout` 0: the communicator's.
  Result<std::shared_ptr<Work::State>> begin(Owned owned, Batch messages,
                                             std::chrono::milliseconds timeout);
  /// Begins them and waits until they are over, without releasing the flag in between. The work
  /// has their failures.
  Result<std::shared_ptr<Work::State>> run(Owned owned, Batch messages,
                                           std::chrono::milliseconds timeout);
  /// Returns the message that such a probe finds at this moment.
  Result<std::optional<Received>> look(Owned owned, const Pattern& pattern);

  // The short way of blocking calls of short messages, to or from a given rank, arguments already
  // checked. They return false if the call has to be made the general way.
  bool send_short(Owned owned, const MessageRequest& request);
  bool recv_short(Owned owned, const MessageRequest& request, Received& got);

 private:
  Status post(Owned owned, Batch messages, std::chrono::milliseconds timeout);
  /// Waits until the link has taken a pushed message.
  void flush(Owned owned, const MessageRequest& request);
  /// Limit of a blocking message on the short way.
  std::size_t most_short_bytes() const;

  const With with_;
};

}  // namespace ccoll
