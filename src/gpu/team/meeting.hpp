// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the ranks of a team come together for a call: each comes with its stream, the last to come
/// launches for all, and each goes on when that is done. Knows no CUDA: what is asked of it stands
/// in TeamDevice.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "gpu/way.hpp"

struct CUstream_st;

namespace ccoll::device {

struct LoadedProgram;

/// One rank's part in a call. Its buffers belong to the call until the stream has passed it.
struct TeamCall {
  std::uint32_t rank = 0;
  const LoadedProgram* program = nullptr;  ///< the same for all ranks
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool in_place = false;  ///< they share memory
  CUstream_st* stream = nullptr;
  std::uint64_t capture = 0;  ///< which one the stream is part of; 0: none
};

/// What a meeting asks of the device. Calls of different ranks come from different threads, also at
/// the same time.
class TeamDevice {
 public:
  virtual ~TeamDevice() = default;
  /// By the rank's own thread: what its stream holds now comes before the launch. Says which
  /// capture the stream is part of.
  virtual Status arrive(TeamCall& call) = 0;
  /// By the thread of rank `last`, once for a call, when all have arrived.
  virtual Status launch(std::span<const TeamCall> calls, std::uint32_t last) = 0;
  /// By the rank's own thread: what its stream is given from now on comes after the launch.
  virtual Status leave(const TeamCall& call) = 0;
  /// Ends the kernels that run, soon, and those that are still to run before they write anything.
  /// Does not wait, nor call the meeting.
  virtual void abort() = 0;
};

/// Whatever fails breaks it, as it breaks a communicator: all calls end, and later ones fail, with
/// the first cause. (What has been launched does not end where ranks only make calls that do not
/// fit together: it can end well.) Any thread may call; a rank makes one call at a time.
class TeamMeeting {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  TeamMeeting(std::uint32_t ranks, TeamDevice& device) : device_(device), seats_(ranks) {}

  /// Does not wait for other ranks, so that a thread can come with several; the last to come
  /// launches. `invalid_argument`, and nothing is broken, where the rank has not left its call
  /// before.
  Status arrive(TeamCall call);
  /// After arrive(): waits until all have arrived and the launch is done, and the rank has left it;
  /// or until `until`, and it may come again then. Nothing is launched where the ranks are `apart`.
  /// Where kernels have been told to end, a launch that is under way is waited for nevertheless,
  /// but not for ever, and left before the cause is told: so nothing is written behind the rank.
  Result<Entry> enter(std::uint32_t rank, TimePoint until);
  /// The same, but who waits in vain until `deadline`, or is apart from others, breaks the meeting.
  Status leave(std::uint32_t rank, TimePoint deadline);
  /// Ends everything with `why`, unless something else has before.
  void abort(const Failure& why) { break_with(why); }
  /// The first cause, of a meeting that is broken.
  std::optional<Failure> broken() const;
  /// The same where kernels have been told to end: what has been launched may not be whole.
  std::optional<Failure> ended() const;

 private:
  enum class At : std::uint8_t { away, arriving, waiting, launching, launched, apart };
  struct Seat {
    At at = At::away;
    TeamCall call;  ///< written by its rank's thread before it is `waiting`, then only read
  };

  Status take_seat(const TeamCall& call);
  Status launch(std::uint32_t last);
  void set_all(At at);                        ///< holds mu_
  bool is_waiting(std::uint32_t rank) const;  ///< holds mu_
  Failure late(std::uint32_t rank) const;
  tl::unexpected<Failure> break_with(Failure why, bool ends_kernels = true);

  TeamDevice& device_;
  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;        // by rank; `at` is guarded by mu_
  std::uint32_t waiting_ = 0;      // guarded by mu_
  std::optional<Failure> broken_;  // guarded by mu_
  bool has_ended_ = false;         // guarded by mu_; the kernels are told to end
};

}  // namespace ccoll::device
