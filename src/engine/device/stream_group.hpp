// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank of a group whose ranks are of different processes of a host, on one GPU or on several
/// that reach each other: its calls are stream steps (rank_steps.hpp). Right wherever memory can be
/// shared at all, since nothing on the device waits by spinning. Knows CUDA's streams by name only;
/// only in builds with CUDA.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.hpp"
#include "engine/device/lower.hpp"
#include "engine/device/shared_group.hpp"

struct CUstream_st;

namespace ccoll::device {

struct LoadedSteps;

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

  /// Of a program lowered without lending; stays as long as the group. `unsupported` where it needs
  /// more than the options say.
  Result<const LoadedSteps*> load(const LoweredTeam& lowered);

  /// Puts this rank's part of a call into `stream`; all ranks make the same calls in the same
  /// order. Buffers belong to the call until the stream has passed it. Waits for nobody, but for
  /// room in the device's queue where a call has more steps than fit. A captured call may be
  /// replayed as often as all ranks do so, not at the same time as another call of the group.
  /// Others read what it lends of memory of ccoll::allocate where that lies (lending.hpp), in
  /// a captured one if they have mapped it within a second.
  Status call(const LoadedSteps* steps, std::byte* input, std::byte* output, CUstream_st* stream);

  /// The host waits for the end of what was called, except by graphs. At the deadline, or when some
  /// rank has given up, the streams of all ranks go on and end, and do nothing; the failure says
  /// where this one stood, and if it does not end, that buffers may still be written.
  Status wait(TimePoint deadline);
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
  /// number. Any thread may call, also CUDA's.
  struct PlainCalls {
    std::uint32_t begun = 0;  ///< the last
    std::uint32_t ended = 0;  ///< the last
  };
  PlainCalls plain_calls() const;
  /// What the calls until now put into slots, a captured one once; any thread may call.
  std::uint64_t slot_bytes() const;

 private:
  class Device;
  explicit StreamGroup(std::unique_ptr<Device> device);

  std::unique_ptr<Device> device_;
};

}  // namespace ccoll::device
