// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank of a group whose ranks are of different processes of a host, on one GPU or on several
/// that reach each other. Its calls are stream steps (rank_steps.hpp), right wherever memory can be
/// shared at all, since nothing on the device waits by spinning; or, where each rank has a GPU of
/// its own, the team kernel (interpret.hpp), of which each rank launches its part by itself, and
/// whose blocks wait for those on other GPUs. Knows CUDA's streams by name only; only in builds
/// with CUDA.

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

/// abort() and check() by any thread; all else by one at a time.
class StreamGroup {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// All ranks together: shares memory, then tries with data and words whether what is shared
  /// works. If anything does not for any rank, it fails on all, and says what and where.
  static Result<std::unique_ptr<StreamGroup>> make(const StreamGroupOptions& options,
                                                   Exchange& exchange, TimePoint deadline);
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;
  /// What has been called is ended: with an error on all ranks, if it is not over.
  ~StreamGroup();

  /// As LowerRequest has them, which programs are to be lowered for.
  std::vector<std::uint32_t> device_numbers() const;
  /// Of a program lowered without lending, and if it goes by words, which only kernels do, for all
  /// ranks in place; stays as long as the group. `unsupported` where it needs more than the options
  /// say, or more blocks than the rank that could reserve
  /// least has.
  Result<const GroupProgram*> load(const LoweredTeam& lowered);

  /// Puts this rank's part of a call into `stream`, of the rank's GPU, which is the current one;
  /// `is_captured`: which is captured. All ranks make the same calls in the same order. Buffers
  /// belong to the call until the stream has passed it. Waits for nobody, but for room in the
  /// device's queue where a call has more steps than fit. A captured call may be replayed as often
  /// as all ranks do so, not at the same time as another call of the group, which kernels find out,
  /// and end all. Others read what it lends of memory of ccoll::allocate, or registered, where that
  /// lies (lending.hpp), in a captured one if they have mapped it within a second.
  Status call(const GroupProgram* program, std::byte* input, std::byte* output, CUstream_st* stream,
              bool is_captured = false);

  /// The host waits for the end of what was called, except by graphs. At the deadline, or when some
  /// rank has given up, the streams of all ranks go on and end, and do nothing; the failure says
  /// where this one stood, and if it does not end, that buffers may still be written.
  Status wait(TimePoint deadline);
  /// Where this rank's stream stands, if `program` is what it is to do there; any thread may call.
  std::string standing(const GroupProgram& program) const;
  /// After a graph has ended: whether its calls are whole.
  Status check() const;
  /// Lets the streams of all ranks go on, with `why` as the error of all of them unless there is
  /// one already. Does not wait.
  void abort(const Failure& why);
  /// The same again after an abort: what a stream has written since may have undone it. Any thread
  /// may call.
  void release() const;
  /// Whether what was called has ended, except by graphs; after an abort by any thread.
  bool has_ended() const;
  /// The calls that were not captured, as the stream comes to them and is through with them, by
  /// number; of the team kernel, which finds out by itself what is under way at once, none. Any
  /// thread may call, also CUDA's.
  struct PlainCalls {
    std::uint32_t begun = 0;  ///< the last
    std::uint32_t ended = 0;  ///< the last
  };
  std::optional<PlainCalls> plain_calls() const;
  /// Of memory of the rank's GPU; any thread may call.
  std::uint64_t held_bytes() const;
  /// What the calls until now put into slots, a captured one once; any thread may call.
  std::uint64_t slot_bytes() const;

 private:
  class Device;
  explicit StreamGroup(std::unique_ptr<Device> device);

  std::unique_ptr<Device> device_;
};

}  // namespace ccoll::device
