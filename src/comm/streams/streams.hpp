// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for calls in CUDA streams: which calls belong there, and how they get into
/// streams. It looks after them by StreamCalls. Without a GPU all it does is to say that no call
/// belongs there.
///
/// Calls come with arguments already checked, from callers that do not hold the owner flag.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/call/call.hpp"
#include "comm/collectives/collective_calls.hpp"
#include "comm/failures/failures.hpp"
#include "comm/groups/self.hpp"
#include "comm/messages/message_calls.hpp"
#include "comm/messages/messages.hpp"
#include "comm/progress/progress.hpp"
#include "comm/streams/device_programs.hpp"
#include "comm/streams/in_stream.hpp"
#include "comm/streams/packer.hpp"
#include "comm/streams/stream_calls.hpp"
#include "comm/streams/stream_parts.hpp"
#include "comm/under_way.hpp"
#include "system/log.hpp"

namespace ccoll {
class Streams {
 public:
  /// The parts that calls are made with.
  struct With {
    const Self& self;
    Progress& progress;
    UnderWay& under_way;
    Failures& failures;
    CollectiveCalls& collective_calls;
    MessageCalls& message_calls;
    DevicePrograms& device_programs;
  };
  explicit Streams(const With& with);

  /// One round over what is under way; true if anything moved.
  bool advance(Owned owned);

  /// Lets other hosts end their parts: a caller learns from its stream alone that a call is over.
  void end_what_devices_made(Owned owned);

  // stream_submission.cpp

  /// Whether a call without a stream uses one all the same: a buffer is device memory, or devices
  /// make the call, because other ranks' buffers may be device memory.
  bool are_for(const Call& call) const;
  bool are_for(const void* input, const void* output) const;
  /// Whether the messages are posted when a stream reaches them: a buffer is device memory, or
  /// earlier messages still wait for a stream.
  bool are_for(std::span<const MessageRequest> requests) const;
  /// Without a stream, uses one of the communicator's own, behind the default stream.
  Result<Work> begin(Call call, std::optional<cudaStream_t> stream);
  Result<Work> begin(std::vector<std::shared_ptr<MessageOperation>> operations,
                     std::chrono::milliseconds timeout, std::optional<cudaStream_t> stream);
  /// Runs it in a stream of the communicator's own and waits for it; throws its failure.
  Status run(const Call& call);

 private:
  /// A call, its rows packed, for a stream.
  struct PackedCall {
    Call call;
    std::shared_ptr<const device::Packing> packing;  ///< null: it has no rows
    std::optional<cudaStream_t> stream;
  };

  // device_calls.cpp
  /// Breaks the communicator: a device's result is incomplete.
  void device_failed(Owned owned, const Failure& failure);
  /// Returns nothing if the ranks' streams are captured apart: then the host makes it on all ranks.
  /// Holds the streams' device_submission(), unless this thread's open group has put off calls.
  Result<std::optional<Work>> begin_on_device(const PackedCall& made, const OnDevice& on_device);
  std::chrono::milliseconds timeout_of(const Call& call) const;
  Clock::time_point limit_of(const Call& call) const;
  /// A call that ranks enter together.
  struct Entering {
    bool is_captured = false;
    Clock::time_point since;
    Clock::time_point limit;  ///< until the stream reaches it, or for one that is captured
  };
  /// Enters as far as possible until `until`. It waits in a stream, by the Clock.
  Result<device::Entry> enter(device::StreamOp& stream_op, const Entering& entering,
                              Clock::time_point until);
  /// The error that kept a call from being entered, or that its limit has passed.
  Failure not_entered(Owned owned, const Result<device::Entry>& entry, bool is_captured);

  // stream_submission.cpp
  Result<Work> begin_by_host(PackedCall made);
  /// Gives the call contiguous memory for rows that the stream is to pack.
  Result<std::shared_ptr<const device::Packing>> pack(Call& call,
                                                      std::optional<cudaStream_t> stream);
  Result<std::shared_ptr<const device::Packing>> packed(std::optional<cudaStream_t> stream,
                                                        const std::function<Status(Packer&)>& pack);
  /// The error of a call that could not begin here.
  Failure not_begun(Failure failure);
  /// Divides the call, if it is large, at its plan's windows.
  Result<DividedCall> in_parts(const Call& call);
  /// Gives a call the host's memory and returns the call that begins at once. Nothing: it begins
  /// when the stream reaches it and tells the StreamCall.
  using Prepare = std::function<std::optional<StreamedCall>(
      StreamCall&, const std::shared_ptr<device::StreamOp>&, bool is_captured)>;
  /// For the device of the request's buffers, or else the rank's.
  Result<device::Staging*> staging_for(const device::StreamOpRequest& request);
  /// Finds out whether the request's stream is captured.
  Result<std::shared_ptr<device::StreamOp>> stream_op(device::StreamOpRequest& request);
  /// A call that has its place among the communicator's calls, but is not in its stream yet.
  struct Submitted {
    Work work;
    std::shared_ptr<StreamCall> call;
    std::shared_ptr<device::StreamOp> stream_op;
    bool is_captured = false;
  };
  Result<Submitted> submit(const Submitting& submitting, device::StreamOpRequest request,
                           Operations shown, const Prepare& prepare);
  Status enqueue(const Submitting& submitting, const Submitted& submitted);
  /// Calls enqueue(), or puts that off behind what this thread's open group has put off.
  Result<Work> put(const Submitting& submitting, const Submitted& submitted,
                   std::optional<cudaStream_t> stream, std::string_view label);
  /// In an open group, a call that ranks enter together enters at the group's end.
  void put_off(const Submitted& submitted, const PackedCall& made);
  /// Returns the call if it takes its place at once; nothing if captured: then its graph begins it.
  std::optional<StreamedCall> begun_in_order(StreamedCall made, StreamCall& watched,
                                             const std::shared_ptr<device::StreamOp>& stream_op,
                                             bool is_captured);

  // direct_messages.cpp
  /// Makes a message's GPU buffer known to the link, which then reads or writes the memory
  /// directly; returns whether that worked. `needs_flush` is set if the stream has to flush then.
  bool make_direct(MessageOperation& operation, bool& needs_flush);
  /// Logs it once per level.
  void log_not_direct(LogLevel level, Rank peer, std::string_view why);

  const With with_;
  StreamCalls& calls_;        ///< by its own tags
  const bool knows_devices_;  ///< CUDA is in use here
  /// One bit per log level.
  std::atomic<unsigned> logged_not_direct_{0};
};

}  // namespace ccoll
