// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The calling thread's open group of calls, as the calls see it.

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"

namespace ccoll::call_group {

/// Whether this thread's blocking calls only begin now.
bool is_open();
/// Those of the open group, and memory for one more: once a call has begun, nothing may fail that
/// would let its caller free the buffers.
std::vector<Work>& works_with_room();
/// Begins a call instead of making it; group_end waits for it. What `begin` throws has not begun.
template <typename Begin>
void add(Begin begin) {
  auto& works = works_with_room();
  works.push_back(begin());
}
/// Blocking messages in a stream begin together when the group ends, as a batch for each
/// communicator and stream: one after another in their stream, a receive would keep the send behind
/// it from whom it waits for. They have been checked; the options are those of the first.
void put_off(const std::shared_ptr<Communicator::Implementation>& communicator,
             std::span<const MessageRequest> requests, const CallOptions& options);
/// A call that waits for other ranks to make theirs, which this thread may have yet to do, goes on
/// when the group ends: `go_on` waits until `until` at the latest, and says whether it is done with
/// that. One after another for each communicator, in their order.
using GoOn = std::function<Result<bool>(std::chrono::steady_clock::time_point until)>;
void put_off(const std::shared_ptr<Communicator::Implementation>& communicator, GoOn go_on);
/// A failure in an open group: of calls whose result nothing that comes before group_end could be.
Status refuse_in_one(std::string_view call);

}  // namespace ccoll::call_group
