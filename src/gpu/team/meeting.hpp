// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the ranks of a team meet for a call: each arrives with its stream, the last to arrive
/// launches for all, and each goes on when that is done. Knows no CUDA: TeamDevice has all that
/// needs it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "gpu/way.hpp"
#include "system/locks.hpp"

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
  std::uint64_t capture = 0;  ///< the one that the stream is part of; 0: none
};

/// The device's side of a meeting. Calls of different ranks come from different threads, also at
/// the same time.
class TeamDevice {
 public:
  virtual ~TeamDevice() = default;
  /// The rank's own thread calls it: what its stream holds by then comes before the launch. Finds
  /// out which capture the stream is part of.
  virtual Status arrive(TeamCall& call) = 0;
  /// The thread of rank `last` calls it, once for a call, when all have arrived.
  virtual Status launch(std::span<const TeamCall> calls, std::uint32_t last) = 0;
  /// The rank's own thread calls it: what its stream is given from then on comes after the launch.
  virtual Status leave(const TeamCall& call) = 0;
  /// Ends running kernels soon; kernels that are still to run end before they write anything.
  /// Neither waits nor calls the meeting.
  virtual void abort() = 0;
};

/// Any failure breaks it, as it breaks a communicator: all calls end, and later ones fail, with the
/// first cause. (If ranks only make calls that do not fit together, launched kernels go on: they
/// can end well.) Any thread may call; a rank makes one call at a time.
class TeamMeeting {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  TeamMeeting(std::uint32_t ranks, TeamDevice& device) : device_(device), standing_(ranks) {}

  /// Does not wait for other ranks, so that a thread can arrive for several; the last to arrive
  /// launches. If the rank has not left its call before: `invalid_argument`, and nothing breaks.
  Status arrive(TeamCall call);
  /// After arrive(): waits until all have arrived, the launch is done and the rank has left it. At
  /// `until` it returns, and may be called again. Nothing is launched if the ranks are `apart`. If
  /// kernels have been asked to end, it still waits a limited time for a launch under way. It
  /// leaves that launch before it reports the cause: so nothing is written behind the rank.
  Result<Entry> enter(std::uint32_t rank, TimePoint until);
  /// The same, but a rank that is late at `deadline`, or apart from others, breaks the meeting.
  Status leave(std::uint32_t rank, TimePoint deadline);
  /// Ends everything with `why`, unless something else has before.
  void abort(const Failure& why) { break_with(why); }
  /// The first cause, if the meeting is broken.
  std::optional<Failure> broken() const;
  /// The same, if kernels have been asked to end: what has been launched may be incomplete.
  std::optional<Failure> ended() const;

 private:
  enum class At : std::uint8_t { away, arriving, waiting, launching, launched, apart };
  struct Seat {
    At at = At::away;
    TeamCall call;  ///< from `waiting` on
  };

  struct Standing {
    std::vector<Seat> seats;  ///< by rank
    std::uint32_t waiting = 0;
    std::optional<Failure> broken;
    bool has_ended = false;  ///< the kernels have to end

    explicit Standing(std::uint32_t ranks) : seats(ranks) {}
    void set_all(At at);
    bool is_waiting(std::uint32_t rank) const;
    /// Why that rank waits in vain.
    Failure late(std::uint32_t rank) const;
  };

  Status take_seat(const TeamCall& call);
  Status launch(std::uint32_t last);
  tl::unexpected<Failure> break_with(Failure why, bool ends_kernels = true);

  TeamDevice& device_;
  Guarded<Standing> standing_;
  std::condition_variable changed_;
};

}  // namespace ccoll::device
