// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The roads on which calls are made.

#include <cstdint>

#include "ccoll/work.hpp"
#include "comm/call/call_group.hpp"

namespace ccoll {

/// When a call returns. One whose data come later only begins in any case.
enum class Until : std::uint8_t { done, begun };

/// Takes the first road that is open to the call:
///   at once  a blocking call like an earlier one, or of a short message, needs few checks
///   group    in an open group, a blocking call only begins
///   stream   if it has a stream, or memory of a device, a stream makes it
///   queue    else the host makes it, behind earlier calls
template <typename Request>
Work submit(Request&& request, Until until = Until::done) {
  if (until == Until::done && request.at_once()) return {};
  auto call = request.checked();
  const auto enter = [&](Until when) {
    return call.is_for_stream() ? call.by_stream(when) : call.by_queue(when);
  };
  if (until == Until::begun || !call_group::is_open()) return enter(until);
  // Its stream waits for it, so that the group need not.
  if (call.options.stream) return call.in_stream_of_group();
  Work work;
  call_group::add([&] { return work = enter(Until::begun); });
  return work;
}

}  // namespace ccoll
