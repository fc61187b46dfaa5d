// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Receives from one rank that have all their data, though not all of it is at the device yet.

#include <vector>

#include "comm/messages/message_operation.hpp"
#include "comm/messages/pending_messages.hpp"
#include "core/result.hpp"

namespace ccoll {

class Landings {
 public:
  explicit Landings(PendingMessages& pending) : pending_(pending) {}

  /// All data has arrived, or left: completes it as soon as the data is in place.
  void end_transfer(MessageOperation& operation);
  bool empty() const { return landing_.empty(); }
  /// Moves arrived data to the device as far as there is room, and completes what is in place.
  Status advance();

 private:
  PendingMessages& pending_;
  std::vector<MessageOperation*> landing_;
};

}  // namespace ccoll
