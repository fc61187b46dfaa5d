// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank of a group whose ranks are in different processes of a host, on one GPU or on several
/// that reach each other. Its calls are stream steps (rank_steps.hpp), which work wherever memory
/// can be shared at all, since nothing on the device waits by spinning. If each rank has its own
/// GPU, they may be the team kernel (interpret.hpp): each rank launches its part by itself, and its
/// blocks wait for those on other GPUs. Knows CUDA's streams by name only; only in builds with
/// CUDA.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/result.hpp"
#include "gpu/group/group_calls.hpp"
#include "gpu/group/shared_group.hpp"
#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// Any thread may call abort() and check(); all else is for one thread at a time.
class StreamGroup {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// All ranks call it together. It shares memory, then tries with data and words whether that
  /// works. If anything fails for any rank, it fails on all, and says what and where.
  static Result<std::unique_ptr<StreamGroup>> make(const StreamGroupOptions& options,
                                                   Exchange& exchange, TimePoint deadline);
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;
  /// Ends what has been called: with an error on all ranks, if it is not over.
  ~StreamGroup();

  /// The devices that programs must be lowered for, as LowerRequest has them.
  std::vector<std::uint32_t> device_numbers() const;
  /// The program must be lowered without lending. If it goes by words, which only kernels do, it
  /// must be lowered for all ranks in place. It stays as long as the group. `unsupported` if it
  /// needs more than the options say, or more blocks than the rank has that could reserve least.
  Result<const GroupProgram*> load(const LoweredTeam& lowered);

  /// Puts this rank's part of a call into `stream`, of the rank's GPU, which is the current one;
  /// `is_captured`: whether that is captured. All ranks make the same calls in the same order.
  /// Buffers belong to the call until the stream has passed it. Waits for no rank, only for room in
  /// the device's queue if a call has more steps than fit. A captured call may be replayed as often
  /// as all ranks do so, but not beside another call of the group: kernels find that out, and end
  /// all. Other ranks read memory that it lends, of ccoll::allocate or registered, where it lies
  /// (lending.hpp). For a captured call they must have mapped it within a second.
  Status call(const GroupProgram* program, std::byte* input, std::byte* output, CUstream_st* stream,
              bool is_captured = false);

  /// The host waits for the end of what was called, except by graphs. At the deadline, or when some
  /// rank has given up, the streams of all ranks go on and end, and do nothing. The failure says
  /// where this one stood and, if it does not end, that buffers may still be written.
  Status wait(TimePoint deadline);
  /// Where this rank's stream stands, if it is to run `program` there; any thread may call.
  std::string standing(const GroupProgram& program) const;
  /// After a graph has ended: whether its calls are complete.
  Status check() const;
  /// Lets the streams of all ranks go on. `why` is the error of all of them, unless there is one
  /// already. Does not wait.
  void abort(const Failure& why);
  /// Lets them go on again after an abort: what a stream has written since may have undone it. Any
  /// thread may call.
  void release() const;
  /// Whether what was called has ended, except by graphs. After an abort any thread may call.
  bool has_ended() const;
  /// The numbers of the last calls that the stream has begun and ended, without captured calls.
  /// Empty for the team kernel, which finds overlapping calls by itself. Any thread may call,
  /// CUDA's threads too.
  struct PlainCalls {
    std::uint32_t begun = 0;  ///< the last
    std::uint32_t ended = 0;  ///< the last
  };
  std::optional<PlainCalls> plain_calls() const;
  /// Memory of the rank's GPU, in bytes; any thread may call.
  std::uint64_t held_bytes() const;
  /// Bytes that calls have put into slots, a captured call once; any thread may call.
  std::uint64_t slot_bytes() const;

 private:
  class Device;
  explicit StreamGroup(std::unique_ptr<Device> device);

  std::unique_ptr<Device> device_;
};

}  // namespace ccoll::device
