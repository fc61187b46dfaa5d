// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The calling thread's open group of calls, as the calls see it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/communicator.hpp"
#include "ccoll/device.hpp"
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
/// Whether anything of the open group is put off: calls in streams that come later are put off
/// behind it, so that streams have a thread's calls in the order in which it made them.
bool has_put_off();
/// Messages in one stream.
struct Batch {
  CallOptions options;
  std::string label;  ///< what the options name
  std::vector<MessageRequest> requests;
};
/// What comes into its stream when the group ends, or this thread waits for anything before.
struct PutOff {
  std::weak_ptr<Communicator::Implementation> communicator;
  std::optional<cudaStream_t> stream;  ///< nothing: one of the communicator's own
  std::string label;
  /// Goes on until `until` at the latest, and says whether it is done with that. It may wait for
  /// other ranks, which this thread may have yet to let go on. One of those with the same
  /// communicator or stream goes on only when those before it are done.
  std::function<Result<bool>(Communicator::Implementation& communicator,
                             std::chrono::steady_clock::time_point until)>
      go_on;
  /// Other than 0: it waits for those of other ranks, which have the same number, also where those
  /// have the same stream.
  std::uint64_t together = 0;
  std::shared_ptr<Batch> batch = nullptr;  ///< of messages: it takes more
};
void put_off(PutOff call);
/// Blocking messages in a stream begin together, as a batch: one after another in their stream, a
/// receive would keep the send behind it from whom it waits for. Those of one communicator that
/// have nothing else between them in the stream are one. They have been checked; the options are
/// those of the first.
void put_off(const std::shared_ptr<Communicator::Implementation>& communicator,
             std::span<const MessageRequest> requests, const CallOptions& options);
/// What is put off goes on until all of it is done, or `awaited` is, or `limit` has passed: as far
/// as it can without waiting, at least. Its first failure is the group's.
void go_on(const Work::State* awaited, std::chrono::steady_clock::time_point limit);
/// A failure in an open group: of calls whose result nothing that comes before group_end could be.
Status refuse_in_one(std::string_view call);

}  // namespace ccoll::call_group
