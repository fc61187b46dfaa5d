// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Error texts about messages that do not get through.

#include <span>
#include <string>

#include "comm/messages/matching.hpp"
#include "comm/messages/message_operation.hpp"
#include "core/result.hpp"

namespace ccoll {

/// "recv from rank 0 tag 7 (a buffer of 200 bytes) on rank 1". `own`: this rank.
std::string name_of(const MessageOperation& operation, Rank own);

/// " (others have: rank 0 tag 3 with 8 bytes)": messages from those ranks that match no receive.
std::string others_waiting(const Matcher& matcher, std::span<const Rank> ranks);

/// How far it has come, for one that does not move. `others`: what others_waiting() says, for one
/// whose message has not come.
std::string standing_of(const MessageOperation& operation, const std::string& others);

/// The failure of a link as that of a message that it hits.
tl::unexpected<Failure> lost(const MessageOperation& operation, const Failure& failure, Rank own,
                             const std::string& others = "");

}  // namespace ccoll
