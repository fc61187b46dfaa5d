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

/// The communicator that a call belongs to, as far as a group of calls cares: whether two calls
/// have the same one, and whether it still lives.
using WeakCommunicator = std::weak_ptr<const void>;

/// Whether this thread's blocking calls only begin now.
bool is_open();
/// The open group's works, with memory for one more: once a call has begun, nothing may fail in a
/// way that would let its caller free the buffers.
std::vector<Work>& works_with_room();
/// Begins a call instead of making it; group_end waits for it. If `begin` throws, it has not begun.
template <typename Begin>
void add(Begin begin) {
  auto& works = works_with_room();
  works.push_back(begin());
}
/// Whether anything of the open group is put off. Later calls in streams are put off behind it, so
/// that streams have a thread's calls in the order in which it made them.
bool has_put_off();
/// Blocking messages of a communicator in a stream begin together: one after another, a receive
/// would keep back the send behind it, which its peer may wait for.
struct Batch {
  CallOptions options;
  std::string label;  ///< owns the options' label
  std::vector<MessageRequest> requests;
};
/// Comes into its stream when the group ends, or when this thread waits for anything earlier.
struct PutOff {
  WeakCommunicator communicator;
  std::optional<cudaStream_t> stream;  ///< nothing: one of the communicator's own
  /// Goes on until `until`, by the Clock, at the latest; returns whether it is done. It may wait
  /// for other ranks, which may need this thread to go on first. Of calls with the same
  /// communicator or stream, each waits until earlier ones are done. The communicator lives
  /// meanwhile. A failure comes as the caller is to see it.
  std::function<Result<bool>(std::chrono::steady_clock::time_point until)> go_on;
  /// Not 0: it waits for other ranks' calls, which have the same number and may be in the same
  /// stream.
  std::uint64_t together = 0;
  std::shared_ptr<Batch> batch = nullptr;  ///< of messages, if it takes more
};
void put_off(PutOff call);
/// The batch that messages of that communicator in that stream join, because no other call lies
/// between them there; null if there is none.
std::shared_ptr<Batch> open_batch(const WeakCommunicator& communicator,
                                  std::optional<cudaStream_t> stream);
/// Goes on with the calls that are put off until all are done, or `awaited` is, or `limit` has
/// passed; always as far as it can without waiting. The first failure is the group's. The limit is
/// one of the Clock, by which the calls wait for streams and threads of several communicators.
void go_on(const Work::State* awaited, std::chrono::steady_clock::time_point limit);
/// Fails in an open group, for calls whose results cannot be there before group_end.
Status refuse_in_one(std::string_view call);

}  // namespace ccoll::call_group
