// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages that are checked only when their turn comes (comm/api/call_group.hpp).

#include <span>
#include <string_view>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Checks the messages of that `call`, and puts them into their stream.
Result<Work> begin_in_stream(Communicator::Implementation& communicator, std::string_view call,
                             std::span<const MessageRequest> requests, const CallOptions& options);

}  // namespace ccoll
